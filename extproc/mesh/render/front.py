"""Tier one: the units as hosts of one cluster, and the route that retries on another of them."""

from __future__ import annotations

from envoy_data_plane.envoy.config.cluster.v3 import (
    Cluster,
    ClusterCommonLbConfig,
    ClusterDiscoveryType,
    OutlierDetection,
)
from envoy_data_plane.envoy.config.common.matcher.v3 import (
    HttpHeadersMatch,
    MatchPredicate,
    MatchPredicateMatchSet,
)
from envoy_data_plane.envoy.config.core.v3 import Http1ProtocolOptions, RuntimeFractionalPercent
from envoy_data_plane.envoy.config.endpoint.v3 import (
    ClusterLoadAssignment,
    Endpoint,
    LbEndpoint,
    LocalityLbEndpoints,
)
from envoy_data_plane.envoy.config.route.v3 import (
    HeaderMatcher,
    RetryPolicy,
    RetryPolicyRetryPriority,
    RouteAction,
    RouteActionRequestMirrorPolicy,
)
from envoy_data_plane.envoy.extensions.retry.priority.previous_priorities.v3 import (
    PreviousPrioritiesConfig,
)
from envoy_data_plane.envoy.extensions.upstreams.http.v3 import HttpProtocolOptions as Upstream
from envoy_data_plane.envoy.extensions.upstreams.http.v3 import (
    HttpProtocolOptionsExplicitHttpConfig as Explicit,
)
from envoy_data_plane.envoy.extensions.upstreams.http.v3 import (
    HttpProtocolOptionsOutlierDetection as Errors,
)
from envoy_data_plane.envoy.type.matcher.v3 import RegexMatcher, StringMatcher
from envoy_data_plane.envoy.type.v3 import FractionalPercent, Percent

from extproc.mesh.render.messages import MARKER, internal, packed, seconds
from extproc.mesh.render.plan import SHADOW, Front, Plan, Tier
from extproc.mesh.render.sidecar import UPSTREAM_OPTIONS, ask_health, asked, wide

OURS = [MARKER, "x-semantic-unit", "x-semantic-release", "x-semantic-state"]
"""Headers that only the sidecar sets: what a client sends under these names goes no further."""

BUFFER = 16 << 20
"""Bytes of a request that are kept for its retry."""

SHADOW_KEY = "semantic.shadow_percent"


def action(made: Plan, front: Front) -> RouteAction:
    """What the route does with a request."""
    result = RouteAction(cluster=front.cluster)
    if front.route.timeout is not None:
        result.timeout = seconds(front.route.timeout)
    if not made.observe and len(front.tiers) > 1:
        result.retry_policy = _retry()
    if made.shadow is not None:
        share = FractionalPercent(numerator=made.settings.mesh.shadow.percent)
        result.request_mirror_policies = [
            RouteActionRequestMirrorPolicy(
                cluster=SHADOW,
                runtime_fraction=RuntimeFractionalPercent(
                    runtime_key=SHADOW_KEY, default_value=share
                ),
            )
        ]
    return result


def _marked() -> HeaderMatcher:
    return HeaderMatcher(name=MARKER, string_match=StringMatcher(exact="corrupt"))


def _retry() -> RetryPolicy:
    return RetryPolicy(
        retry_on="retriable-headers,connect-failure,refused-stream,5xx",
        num_retries=1,
        retriable_headers=[_marked()],
        retry_priority=RetryPolicyRetryPriority(
            name="envoy.retry_priorities.previous_priorities",
            typed_config=packed(PreviousPrioritiesConfig(update_frequency=1)),
        ),
    )


def cluster(made: Plan, front: Front) -> Cluster:
    """One host a unit, in order of preference."""
    eject = made.settings.mesh.eject
    result = Cluster(
        name=front.cluster,
        type=ClusterDiscoveryType.STATIC,
        connect_timeout=seconds(1),
        common_lb_config=ClusterCommonLbConfig(
            healthy_panic_threshold=Percent(value=0), update_merge_window=seconds(0)
        ),
        load_assignment=ClusterLoadAssignment(
            cluster_name=front.cluster,
            endpoints=[
                LocalityLbEndpoints(priority=at, lb_endpoints=[_unit(made, tier, eject)])
                for at, tier in enumerate(front.tiers)
            ],
        ),
        circuit_breakers=wide(max_retries=1000),
    )
    options = Upstream(explicit_http_config=Explicit(http_protocol_options=Http1ProtocolOptions()))
    if eject:
        ask_health(made, result)
    if eject and not made.observe and len(front.tiers) > 1:
        result.outlier_detection = _outlier()
        options.outlier_detection = Errors(error_matcher=_errors())
    result.typed_extension_protocol_options = {UPSTREAM_OPTIONS: packed(options)}
    return result


def _unit(made: Plan, tier: Tier, eject: bool) -> LbEndpoint:
    endpoint = Endpoint(address=internal(tier.listener))
    if eject:
        endpoint.health_check_config = asked(made, tier.id)
    return LbEndpoint(endpoint=endpoint)


def _outlier() -> OutlierDetection:
    return OutlierDetection(
        consecutive_5xx=3,
        enforcing_consecutive_5xx=100,
        enforcing_consecutive_gateway_failure=0,
        enforcing_success_rate=0,
        interval=seconds(1),
        base_ejection_time=seconds(30),
        max_ejection_percent=50,
        successful_active_health_check_uneject_host=False,
    )


def _errors() -> MatchPredicate:
    status = HeaderMatcher(
        name=":status",
        string_match=StringMatcher(safe_regex=RegexMatcher(regex="5[0-9][0-9]")),
    )
    return MatchPredicate(
        or_match=MatchPredicateMatchSet(
            rules=[
                MatchPredicate(http_response_headers_match=HttpHeadersMatch(headers=[header]))
                for header in (_marked(), status)
            ]
        )
    )


def shadow(tier: Tier) -> Cluster:
    """Leads copies to the candidate's internal listener."""
    endpoint = LbEndpoint(endpoint=Endpoint(address=internal(tier.listener)))
    return Cluster(
        name=SHADOW,
        type=ClusterDiscoveryType.STATIC,
        connect_timeout=seconds(1),
        load_assignment=ClusterLoadAssignment(
            cluster_name=SHADOW, endpoints=[LocalityLbEndpoints(lb_endpoints=[endpoint])]
        ),
        circuit_breakers=wide(),
    )
