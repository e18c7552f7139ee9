"""Does the sidecar learn who answered, and to which request?"""

from __future__ import annotations

from collections.abc import Iterator

from extproc.mesh.audit.checks.attachment import ATTRIBUTES
from extproc.mesh.audit.finding import Hit, Severity, Theme
from extproc.mesh.audit.guard import tells_namespace
from extproc.mesh.audit.reach import Mesh, Way
from extproc.mesh.audit.world import HEADER_MUTATION, Cluster, own_metadata

THEME = Theme("Identity")

ATTEMPT = "request.headers['x-envoy-attempt-count']"

METADATA = """
# unit: an id of extproc.yaml
metadata: {filter_metadata: {semantic.extproc: {unit: unit-a, release: r1}}}
"""

NEEDED = {
    "request.path": "the dialect of the answer is guessed from its bytes",
    "request.id": "the attempts of one request cannot be paired, so no prompt is ruled out",
    "request.size": "every answer counts as the smallest context class",
    "upstream.address": "hosts without metadata cannot be told apart",
}
"""Attributes, and what is lost without them."""


@THEME.check(
    "forwarding-namespaces",
    Severity.ERROR,
    "cluster metadata is not sent to the sidecar",
    "The unit's id stands in the cluster's metadata under semantic.extproc; Envoy sends it only "
    "when the namespace is listed. Else answers are charged to the unit that clusters: in "
    "extproc.yaml names, or to unknown.",
    "metadata_options: {cluster_metadata_forwarding_namespaces: {untyped: [semantic.extproc]}}",
)
def forwarding_namespaces(mesh: Mesh) -> Iterator[Hit]:
    for guard in mesh.guards:
        if tells_namespace(guard, "cluster_metadata_forwarding_namespaces"):
            continue
        settings = mesh.world.settings
        if settings is not None and settings.trusted_headers.unit:
            continue  # each answer says itself who made it
        at = guard["metadata_options"]["cluster_metadata_forwarding_namespaces"]
        if guard.filter.policy:
            how = "set a header of each backend, and name it in trusted_headers.unit"
            yield Hit(at, guard.of, f"an EnvoyExtensionPolicy cannot: {how}")
            continue
        clusters = _read_by(mesh, guard.key)
        severity = None
        if clusters and all(_by_hosts(entry, guard.attributes) for entry in clusters):
            severity = Severity.INFO  # as it must be for Envoy 1.36, which cannot forward it
        elif clusters and all(_by_name(mesh, entry, guard.attributes) for entry in clusters):
            severity = Severity.WARNING  # the unit is known, a release in the metadata is not
        yield Hit(at, guard.of, severity=severity)


def _read_by(mesh: Mesh, key: tuple[str, str]) -> list[Cluster]:
    return [
        way.cluster for way in mesh.inspected if any(guard.key == key for _, guard in way.guards)
    ]


def _by_hosts(cluster: Cluster, attributes: list[str]) -> bool:
    told = "xds.upstream_host_metadata" in attributes and bool(cluster.endpoints)
    return told and all(host.unit for host in cluster.endpoints)


def _by_name(mesh: Mesh, cluster: Cluster, attributes: list[str]) -> bool:
    return "xds.cluster_name" in attributes and bool(mesh.world.owner(cluster.name))


@THEME.check(
    "attributes-missing",
    Severity.WARNING,
    "response_attributes leave out what the sidecar needs",
    "They come with the headers of each answer, also where request_header_mode is SKIP, and tell "
    "the sidecar what it cannot read from the answer.",
    ATTRIBUTES,
)
def attributes_missing(mesh: Mesh) -> Iterator[Hit]:
    for guard in mesh.guards:
        have = guard.attributes
        for name, lost in NEEDED.items():
            if name not in have and name.partition(".")[0] not in have:
                yield Hit(guard["response_attributes"], guard.of, f"without {name} {lost}")
        if guard.filter.policy:
            continue  # it may not ask for more
        names = {"xds.cluster_name", "xds.upstream_host_metadata"}
        forwarded = tells_namespace(guard, "cluster_metadata_forwarding_namespaces")
        for name in sorted(names - set(have)):
            lost = (
                "hosts and their releases cannot be told apart"
                if "host" in name
                else "clusters: in extproc.yaml is never used"
            )
            severity = Severity.INFO if forwarded and name == "xds.cluster_name" else None
            said = f"without {name} {lost}"
            yield Hit(guard["response_attributes"], guard.of, said, severity=severity)


@THEME.check(
    "attempt-count-missing",
    Severity.WARNING,
    "the front does not number its attempts",
    "With x-envoy-attempt-count the two attempts of one request are compared: corrupt on both is "
    "the prompt's fault and charges nobody. Without it, a prompt that makes every unit loop "
    "counts against each.",
    "include_request_attempt_count: true   # of the virtual host",
)
def attempt_count_missing(mesh: Mesh) -> Iterator[Hit]:
    for front in mesh.fronts:
        at = front.route.host["include_request_attempt_count"]
        elsewhere = front.route.patched and not front.route.host
        if not elsewhere and front.holds and front.route.retry and not at.flag():
            yield Hit(at, front.route.of)


@THEME.check(
    "attempt-count-not-sent",
    Severity.WARNING,
    "the attempt's number is not sent to the sidecar",
    "upstream.request_attempt_count there counts the tier's own attempts and is always 1; the "
    "front's number is a request header.",
    f'response_attributes: ["{ATTEMPT}"]   # beside the others',
)
def attempt_count_not_sent(mesh: Mesh) -> Iterator[Hit]:
    seen = set()
    for front in mesh.fronts:
        for guard in front.guards:
            if guard.observes or not front.route.retry or guard.key in seen:
                continue
            seen.add(guard.key)
            if ATTEMPT in guard.attributes:
                continue
            # Envoy sends an attribute under the name by which it was asked for, to the letter.
            doubled = ATTEMPT.replace("'", '"') in guard.attributes
            said = "the sidecar looks for it under single quotes" if doubled else ""
            yield Hit(guard["response_attributes"], guard.of, said)


@THEME.check(
    "request-id-stripped",
    Severity.WARNING,
    "x-request-id is lost between the tiers",
    "The id pairs the attempts of one request, and a shadow with its primary; without one id for "
    "both, nothing is paired.",
    "# without x-request-id in request_headers_to_remove; at the unit's tier:\n"
    "generate_request_id: false",
)
def request_id_stripped(mesh: Mesh) -> Iterator[Hit]:
    for way in mesh.inspected:
        for number, leg in enumerate(way.legs):
            for level in leg.route.levels(leg.target):
                for entry in level["request_headers_to_remove"].items():
                    if entry.text().lower() == "x-request-id" and number + 1 < len(way.legs):
                        yield Hit(entry, leg.route.of)
            for mutation in leg.manager.filters:
                if not mutation.type.endswith(HEADER_MUTATION) or number + 1 == len(way.legs):
                    continue
                for rule in mutation.config.at("mutations", "request_mutations").items():
                    if rule["remove"].text().lower() == "x-request-id":
                        yield Hit(rule["remove"], leg.manager.of)
            manager = leg.manager.node
            if number == 0 and manager["generate_request_id"].value is False:
                said = "a client that sends no id gets none"
                yield Hit(manager["generate_request_id"], leg.manager.of, said)
            if number and manager["use_remote_address"].flag():
                kept = manager["preserve_external_request_id"].flag()
                if manager["generate_request_id"].flag(True) and not kept:
                    said = "use_remote_address makes this tier give the request a new id"
                    yield Hit(manager["generate_request_id"], leg.manager.of, said)


@THEME.check(
    "unit-not-named",
    Severity.ERROR,
    "nothing says which unit a cluster is",
    "Its answers are charged to unknown: no state, no quarantine, no fallback for it.",
    METADATA,
)
def unit_not_named(mesh: Mesh) -> Iterator[Hit]:
    for way in mesh.inspected:
        if way.unit or _each_host_named(way) or way.cluster.partial:
            continue
        severity = None if mesh.world.settings is not None else Severity.WARNING
        if not way.cluster.known_hosts:
            severity = Severity.WARNING
        said = "" if mesh.world.settings is not None else "unless clusters: in extproc.yaml does"
        at = own_metadata(way.cluster.node)
        yield Hit(at, way.cluster.of, said, severity=severity)


def _each_host_named(way: Way) -> bool:
    hosts = way.cluster.endpoints
    return bool(hosts) and all(host.unit for host in hosts)


@THEME.check(
    "units-mixed-in-cluster",
    Severity.WARNING,
    "one cluster holds hosts of several units",
    "Within it a retry or a drained host moves traffic between units by chance, unverified; the "
    "front cannot leave one of them out.",
    "# a cluster for each unit",
)
def units_mixed(mesh: Mesh) -> Iterator[Hit]:
    for way in mesh.inspected:
        units: dict[int, set[str]] = {}
        for host in way.cluster.endpoints:
            if host.unit and not way.cluster.unit:
                units.setdefault(host.priority, set()).add(host.unit)
        for names in units.values():
            if len(names) > 1:
                at = way.cluster.node["load_assignment"]
                yield Hit(at, way.cluster.of, ", ".join(sorted(names)))


@THEME.check(
    "aggregate-unit-metadata",
    Severity.ERROR,
    "behind an aggregate cluster the unit's metadata is lost",
    "There xds.cluster_name and the cluster metadata are the aggregate's; only the hosts' own "
    "metadata names the unit.",
    "# metadata of each endpoint (LbEndpoint):\n" + METADATA.lstrip("\n"),
)
def aggregate_unit_metadata(mesh: Mesh) -> Iterator[Hit]:
    for way in mesh.inspected:
        target = mesh.world.cluster(way.legs[-1].target.cluster)
        at = len(way.legs) - 1
        if (
            target is None
            or not target.aggregate
            or not any(place == at for place, _ in way.guards)
        ):
            continue
        for host in way.cluster.endpoints:
            if not host.unit:
                place = own_metadata(host.node)
                yield Hit(place, way.cluster.of, f"host {host.label} of {target.name}")


@THEME.check(
    "release-missing",
    Severity.INFO,
    "nothing says which release a cluster runs",
    "Health belongs to a release: with its id a new build starts anew, without it yesterday's "
    "quarantine meets today's fix.",
    METADATA,
)
def release_missing(mesh: Mesh) -> Iterator[Hit]:
    settings = mesh.world.settings
    told = {unit.id for unit in settings.units if unit.release} if settings is not None else set()
    for way in mesh.inspected:
        release = own_metadata(way.cluster.node).key("release")
        hosts = [own_metadata(host.node).key("release") for host in way.cluster.endpoints]
        if release or (hosts and all(hosts)) or way.unit in told:
            continue
        if way.unit and not way.cluster.partial:
            yield Hit(release, way.cluster.of)


@THEME.check(
    "clients-not-told-apart",
    Severity.INFO,
    "the sidecar cannot tell clients apart",
    "Evidence from one client is damped, so that one user's odd prompt cannot condemn a unit. That "
    "takes the attributes of sampling.client_attributes (kept as a salted hash).",
    "response_attributes: [\"request.headers['x-forwarded-for']\"]   # beside the others",
)
def clients_not_told_apart(mesh: Mesh) -> Iterator[Hit]:
    settings = mesh.world.settings
    wanted = (
        settings.sampling.client_attributes
        if settings is not None
        else ["request.headers['x-forwarded-for']", "source.address"]
    )
    for guard in mesh.guards:
        if wanted and not set(wanted) & set(guard.attributes):
            yield Hit(guard["response_attributes"], guard.of)
