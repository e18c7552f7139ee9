"""EnvoyFilters that lead a route through the sidecar and keep Istio's own clusters behind it.

Istio's clusters of subsets (``outbound|8000|v1|llm.default.svc.cluster.local``) stay what they are,
endpoints and mTLS included: a unit's internal listener routes to its subset. Istio's proxies load
``envoy.bootstrap.internal_listener`` themselves.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from betterproto2 import Message
from envoy_data_plane.envoy.config.cluster.v3 import Cluster
from envoy_data_plane.envoy.config.route.v3 import Route

from extproc.mesh.render import front, sidecar, unit
from extproc.mesh.render.manifests import document, heading, title
from extproc.mesh.render.messages import MARKER, Tree, metadata, tree
from extproc.mesh.render.plan import Front, Plan, RenderError, Tier, place_of_unit
from extproc.mesh.render.versions import Version

_CONTEXTS = {"gateway": "GATEWAY", "sidecar": "SIDECAR_OUTBOUND"}


def files(made: Plan, version: Version) -> dict[str, str]:
    """``envoyfilter.yaml``, and ``destinationrule.yaml`` if units have labels. Raises
    ``RenderError``."""
    problems = list(_problems(made))
    if problems:
        raise RenderError(problems)
    result = {"envoyfilter.yaml": document(_heading(made, version), _filter(made, version))}
    rules = list(_rules(made))
    if rules:
        text = "Subsets: which pods are which unit. " + (
            "If you have a DestinationRule for this host, move the subsets there and drop this."
        )
        result["destinationrule.yaml"] = document(title("istio", text), *rules)
    return result


def subset(cluster: str) -> tuple[str, str] | None:
    """Host and subset of one of Istio's outbound clusters, if it is one."""
    parts = cluster.split("|")
    if len(parts) != 4 or parts[0] != "outbound" or not parts[3]:
        return None
    return parts[3], parts[2]


def _problems(made: Plan) -> Iterator[tuple[str, str]]:
    for at, entry in enumerate(made.fronts):
        if not entry.route.route:
            yield (
                f"mesh.routes[{at}].route",
                "is missing: the name of the route in your VirtualService (spec.http[].name)",
            )
    for tier in made.tiers:
        if not tier.hosts and not tier.unit.clusters:
            yield (
                place_of_unit(made, tier),
                f"unit {tier.id!r} has neither `clusters` nor `hosts`; name Istio's cluster, such "
                "as outbound|8000|v1|llm.default.svc.cluster.local (istioctl proxy-config cluster)",
            )
        if tier.unit.labels and not tier.hosts and not (subset(tier.cluster) or ("", ""))[1]:
            yield (
                f"{place_of_unit(made, tier)}.labels",
                f"make a subset, but {tier.cluster!r} names none",
            )


def _filter(made: Plan, version: Version) -> Tree:
    istio = made.settings.mesh.istio
    context = _CONTEXTS[istio.context]

    def patch(kind: str, operation: str, value: Message, **match: Any) -> Tree:
        return {
            "applyTo": kind,
            "match": {"context": context, **match},
            "patch": {"operation": operation, "value": tree(value)},
        }

    patches = [patch("LISTENER", "ADD", unit.listener(made, tier, version)) for tier in made.tiers]
    patches += [patch("CLUSTER", "ADD", front.cluster(made, entry)) for entry in made.fronts]
    if made.shadow is not None:
        patches.append(patch("CLUSTER", "ADD", front.shadow(made.shadow)))
    patches += [
        patch("CLUSTER", "ADD", unit.cluster(made, tier, version))
        if tier.hosts
        else patch("CLUSTER", "MERGE", _named(tier), cluster={"name": tier.cluster})
        for tier in made.tiers
    ]
    patches.append(patch("CLUSTER", "ADD", sidecar.cluster(made)))
    patches += [
        patch("HTTP_ROUTE", "MERGE", _route(made, entry), routeConfiguration=_where(entry))
        for entry in made.fronts
    ]
    spec: Tree = {"workloadSelector": {"labels": dict(istio.selector)}} if istio.selector else {}
    return {
        "apiVersion": "networking.istio.io/v1alpha3",
        "kind": "EnvoyFilter",
        "metadata": {"name": "semantic-extproc", "namespace": istio.namespace},
        "spec": {**spec, "configPatches": patches},
    }


def _named(tier: Tier) -> Cluster:
    return Cluster(metadata=metadata(unit=tier.id, release=tier.unit.release))


def _route(made: Plan, entry: Front) -> Route:
    result = Route(
        route=front.action(made, entry),
        request_headers_to_remove=front.OURS,
        response_headers_to_remove=[MARKER],
    )
    if not made.observe:
        result.request_body_buffer_limit = front.BUFFER
    return result


def _where(entry: Front) -> Tree:
    host: Tree = {"name": entry.route.virtual_host} if entry.route.virtual_host else {}
    return {"vhost": {**host, "route": {"name": entry.route.route}}}


def _rules(made: Plan) -> Iterator[Tree]:
    """One DestinationRule a host, with the subsets of units that name their labels."""
    hosts: dict[str, dict[str, Mapping[str, str]]] = {}
    for tier in made.tiers:
        found = subset(tier.cluster)
        if tier.unit.labels and found is not None and not tier.hosts:
            hosts.setdefault(found[0], {})[found[1]] = tier.unit.labels
    for host, subsets in hosts.items():
        name, _, rest = host.partition(".")
        yield {
            "apiVersion": "networking.istio.io/v1",
            "kind": "DestinationRule",
            "metadata": {"name": f"{name}-units", "namespace": rest.partition(".")[0] or "default"},
            "spec": {
                "host": host,
                "trafficPolicy": {"connectionPool": {"http": {"maxRequestsPerConnection": 1}}},
                "subsets": [
                    {"name": name, "labels": dict(labels)} for name, labels in subsets.items()
                ],
            },
        }


def _heading(made: Plan, version: Version) -> str:
    istio = made.settings.mesh.istio
    return heading(
        made,
        version,
        "istio",
        "What it adds to the proxies that workloadSelector names: an internal listener a unit, a "
        "cluster whose hosts are the units, the sidecar's cluster; and your route is led there. "
        "Istio's own clusters serve as before, behind the internal listeners.",
        "",
        "  kubectl apply -f .",
        f"  istioctl proxy-config listener -n {istio.namespace} <pod>    # unit listeners there?",
        "",
        "A subset's cluster must be known to the proxy: with PILOT_FILTER_GATEWAY_CLUSTER_CONFIG, "
        "name each subset in some VirtualService of the gateway.",
    )
