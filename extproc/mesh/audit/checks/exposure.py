"""Headers, logs and shadows: what others see, and what others can forge."""

from __future__ import annotations

import json
from collections.abc import Iterator

from extproc.mesh.audit.finding import Hit, Severity, Theme
from extproc.mesh.audit.matchers import MARKED, matches_header, matches_string
from extproc.mesh.audit.node import Node
from extproc.mesh.audit.reach import Front, Leg, Mesh
from extproc.mesh.audit.world import HEADER_MUTATION, MARKER, Manager

THEME = Theme("Headers, logs and shadows")

VERDICT = "%DYNAMIC_METADATA(semantic.extproc:verdict)%"


@THEME.check(
    "marker-not-removed",
    Severity.WARNING,
    "clients see the marker header",
    "When all attempts are corrupt the client gets the last one, marker included. Removed at the "
    "front's route it is still there for the retry.",
    "response_headers_to_remove: [x-semantic-verdict]   # of the front's virtual host",
)
def marker_not_removed(mesh: Mesh) -> Iterator[Hit]:
    for front in mesh.fronts:
        if front.holds and not _removed(front):
            at = (front.route.host or front.route.node)["response_headers_to_remove"]
            yield Hit(at, front.route.of)


def _removed(front: Front) -> bool:
    for level in front.route.levels(front.leg.target):
        for entry in level["response_headers_to_remove"].items():
            if entry.text().lower() == MARKER:
                return True
        for matcher in level["response_headers_to_remove_on_match"].items():
            if matches_string(matcher, MARKER):
                return True
    return _mutated_away(front.leg.manager, MARKER)


def _mutated_away(manager: Manager, name: str) -> bool:
    for entry in manager.filters:
        if not entry.type.endswith(HEADER_MUTATION):
            continue
        for rule in entry.config.at("mutations", "response_mutations").items():
            if rule["remove"].text().lower() == name:
                return True
            if rule["remove_on_match"] and matches_string(
                rule.at("remove_on_match", "key_matcher"), name
            ):
                return True
    return False


@THEME.check(
    "marker-removed-too-early",
    Severity.ERROR,
    "the marker is removed before the retry can see it",
    "A header mutation of the unit's own tier runs after ext_proc and takes the marker away: "
    "nothing is retried.",
    "# remove x-semantic-verdict at the front's virtual host only",
)
def marker_removed_too_early(mesh: Mesh) -> Iterator[Hit]:
    for way in mesh.inspected:
        for at, guard in way.guards:
            if guard.observes or guard.upstream or at == 0:
                continue
            manager = way.legs[at].manager
            paths = [entry.node.path for entry in manager.filters]
            before = manager.filters[: paths.index(guard.filter.node.path)]
            for entry in before:  # answers pass filters from the last to the first
                if entry.type.endswith(HEADER_MUTATION):
                    for rule in entry.config.at("mutations", "response_mutations").items():
                        if rule["remove"].text().lower() == MARKER:
                            yield Hit(rule["remove"], manager.of)


@THEME.check(
    "marker-forgeable",
    Severity.WARNING,
    "an engine can set the marker itself",
    "Any backend can send x-semantic-verdict: corrupt and so cause retries and ejections. The "
    "sidecar removes it from answers that are clean, which it cannot here.",
    "response_headers_to_remove: [x-semantic-verdict]   # of the unit tier's virtual host: before "
    "ext_proc",
)
def marker_forgeable(mesh: Mesh) -> Iterator[Hit]:
    for front in mesh.fronts:
        heard = any(
            matches_header(entry, MARKED)
            for entry in front.route.retry["retriable_headers"].items()
        )
        if not heard:
            continue
        for way in front.ways:
            for at, guard in way.guards:
                if not guard.observes and guard.headers == "SEND":
                    continue
                leg = way.legs[at]
                removed = not guard.upstream and any(
                    MARKER in [text.lower() for text in level["response_headers_to_remove"].texts()]
                    for level in leg.route.levels(leg.target)
                )
                if not removed:
                    yield Hit(leg.route.host["response_headers_to_remove"], leg.manager.of)


@THEME.check(
    "client-headers-not-stripped",
    Severity.INFO,
    "clients' own x-semantic-* headers reach the engines",
    "The sidecar reads none of them, but an engine or proxy that echoes request headers would send "
    "them back as answers' headers.",
    "request_headers_to_remove: [x-semantic-verdict, x-semantic-unit, x-semantic-release, "
    "x-semantic-state]",
)
def client_headers_not_stripped(mesh: Mesh) -> Iterator[Hit]:
    for front in mesh.fronts:
        names = {
            text.lower()
            for level in front.route.levels(front.leg.target)
            for text in level["request_headers_to_remove"].texts()
        }
        if MARKER not in names:
            at = (front.route.host or front.route.node)["request_headers_to_remove"]
            yield Hit(at, front.route.of)


@THEME.check(
    "access-log-without-verdict",
    Severity.INFO,
    "the access log does not hold the verdict",
    "A verdict reached after the headers went out is told in dynamic metadata; it is known at the "
    "unit's tier, when the stream ends.",
    f'verdict: "{VERDICT}"',
)
def access_log_without_verdict(mesh: Mesh) -> Iterator[Hit]:
    seen = set()
    for way in mesh.inspected:
        for at, guard in way.guards:
            manager = way.legs[at].manager
            if guard.observes or manager.node.path in seen or not manager.node.path:
                continue
            seen.add(manager.node.path)
            logs = manager.node["access_log"]
            if not any(_says(entry, "semantic.extproc") for entry in logs.items()):
                yield Hit(logs, manager.of)


def _says(entry: Node, text: str) -> bool:
    config = entry["typed_config"]
    if config.type().endswith("HttpGrpcAccessLogConfig"):
        return True  # the service gets all dynamic metadata
    return text in json.dumps(config.value, default=str)


@THEME.check(
    "log-reads-removed-header",
    Severity.INFO,
    "the front logs a header that it removes",
    "A header that response_headers_to_remove takes away logs as - there.",
    f'verdict: "{VERDICT}"   # in the log of the unit\'s tier',
)
def log_reads_removed_header(mesh: Mesh) -> Iterator[Hit]:
    seen = set()
    for front in mesh.fronts:
        manager = front.leg.manager
        if manager.node.path in seen or not _removed(front):
            continue
        seen.add(manager.node.path)
        for entry in manager.node["access_log"].items():
            if "RESP(X-SEMANTIC-VERDICT)" in json.dumps(entry.value, default=str).upper():
                yield Hit(entry, manager.of)


@THEME.check(
    "log-reads-other-tier",
    Severity.INFO,
    "the front logs dynamic metadata of another tier",
    "Dynamic metadata belongs to the request of one listener: the verdict stands in the log of the "
    "unit's tier, and logs as - at the front. Headers pass: %RESP(X-SEMANTIC-UNIT)%.",
    f'verdict: "{VERDICT}"   # in the log of the unit\'s tier',
)
def log_reads_other_tier(mesh: Mesh) -> Iterator[Hit]:
    guarded = {guard.manager.node.path for guard in mesh.guards if guard.manager is not None}
    for manager in {
        front.leg.manager.node.path: front.leg.manager for front in mesh.fronts
    }.values():
        if manager.node.path in guarded:
            continue
        for entry in manager.node["access_log"].items():
            if "DYNAMIC_METADATA(semantic.extproc" in json.dumps(entry.value, default=str):
                yield Hit(entry, manager.of)


@THEME.check(
    "stat-prefix-shared",
    Severity.INFO,
    "listeners of different tiers count under one stat_prefix",
    "Envoy adds up what bears one name, the counters of ext_proc included: which unit's answers "
    "passed unread cannot be told, and this audit compares streams with requests of both.",
    "stat_prefix: unit_a   # one a listener",
)
def stat_prefix_shared(mesh: Mesh) -> Iterator[Hit]:
    seen: dict[str, str] = {}
    managers = [leg.manager for way in mesh.inspected for leg in way.legs]
    for manager in {manager.node.path: manager for manager in managers}.values():
        first = seen.setdefault(manager.stat_prefix, manager.of)
        if manager.stat_prefix and first != manager.of:
            said = f"{manager.stat_prefix}, as {first}"
            yield Hit(manager.node["stat_prefix"], manager.of, said)


@THEME.check(
    "shadow-not-read",
    Severity.WARNING,
    "a shadow's answers are not read",
    "Mirrored requests cost a generation each; unread, they tell nothing about the candidate.",
    "# mirror to a cluster of an internal listener that has the ext_proc filter",
)
def shadow_not_read(mesh: Mesh) -> Iterator[Hit]:
    for way in mesh.ways:
        if way.mirrored and not way.guards and _fronted(mesh, way.legs[0].manager):
            leg = next(leg for leg in way.legs if leg.mirrored)
            yield Hit(leg.target.node, leg.route.of, f"cluster {leg.target.cluster}")


def _fronted(mesh: Mesh, manager: Manager) -> bool:
    return any(way.legs[0].manager is manager for way in mesh.inspected)


@THEME.check(
    "shadow-unbounded",
    Severity.WARNING,
    "every request is mirrored",
    "A shadow runs to its end even when the client leaves (44 of 44 messages): it doubles the load "
    "of generation. A runtime key turns it up and down.",
    "runtime_fraction: {runtime_key: semantic.shadow_percent, default_value: {numerator: 1, "
    "denominator: HUNDRED}}",
)
def shadow_unbounded(mesh: Mesh) -> Iterator[Hit]:
    for leg in _shadows(mesh):
        share = leg.target.node["runtime_fraction"]
        if not share:
            yield Hit(share, leg.route.of, f"to cluster {leg.target.cluster}")


@THEME.check(
    "shadow-traced",
    Severity.INFO,
    "shadows are traced like answers",
    "trace_sampled unset lets the shadow's spans join the client's trace, where its latency looks "
    "like the client's.",
    "trace_sampled: false",
)
def shadow_traced(mesh: Mesh) -> Iterator[Hit]:
    for leg in _shadows(mesh):
        at = leg.target.node["trace_sampled"]
        if not at and leg.manager.node["tracing"]:
            yield Hit(at, leg.route.of)


def _shadows(mesh: Mesh) -> Iterator[Leg]:
    seen = set()
    for way in mesh.ways:
        if way.guards or way.cluster.name in mesh.units:
            for leg in way.legs:
                if leg.mirrored and leg.target.node.path not in seen:
                    seen.add(leg.target.node.path)
                    yield leg
