"""The sidecar as Envoy sees it: the filter, its cluster, and whom to ask for a unit's health."""

from __future__ import annotations

from envoy_data_plane.envoy.config.cluster.v3 import (
    CircuitBreakers,
    CircuitBreakersThresholds,
    Cluster,
    ClusterDiscoveryType,
    ClusterLbPolicy,
    ClusterTransportSocketMatch,
)
from envoy_data_plane.envoy.config.common.mutation_rules.v3 import HeaderMutationRules
from envoy_data_plane.envoy.config.core.v3 import (
    DataSource,
    GrpcService,
    GrpcServiceEnvoyGrpc,
    HealthCheck,
    HealthCheckGrpcHealthCheck,
    HealthCheckHttpHealthCheck,
    Http2ProtocolOptions,
    RetryPolicy,
    RetryPolicyRetryHostPredicate,
    TransportSocket,
)
from envoy_data_plane.envoy.config.endpoint.v3 import (
    ClusterLoadAssignment,
    Endpoint,
    EndpointHealthCheckConfig,
    LbEndpoint,
    LocalityLbEndpoints,
)
from envoy_data_plane.envoy.extensions.filters.http.ext_proc.v3 import (
    ExternalProcessor,
    MetadataOptions,
    MetadataOptionsMetadataNamespaces,
    ProcessingMode,
    ProcessingModeBodySendMode,
    ProcessingModeHeaderSendMode,
)
from envoy_data_plane.envoy.extensions.retry.host.previous_hosts.v3 import (
    PreviousHostsPredicate,
)
from envoy_data_plane.envoy.extensions.transport_sockets.tls.v3 import (
    CertificateValidationContext,
    CommonTlsContext,
    TlsCertificate,
    UpstreamTlsContext,
)
from envoy_data_plane.envoy.extensions.upstreams.http.v3 import HttpProtocolOptions as Upstream
from envoy_data_plane.envoy.extensions.upstreams.http.v3 import (
    HttpProtocolOptionsExplicitHttpConfig as Explicit,
)
from envoy_data_plane.envoy.type.matcher.v3 import RegexMatcher
from envoy_data_plane.google.protobuf import Struct

from extproc.config.mesh import is_ip, split
from extproc.mesh.render.messages import NAMESPACE, address, packed, seconds
from extproc.mesh.render.plan import MESSAGE_TIMEOUT, SIDECAR, Plan
from extproc.mesh.render.versions import Feature, Version

UPSTREAM_OPTIONS = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"
MANY = 100_000
"""More streams at a time than one Envoy serves."""

_ATTRIBUTES = (
    "xds.cluster_name",
    "xds.upstream_host_metadata",
    "upstream.address",
    "request.id",
    "request.path",
    "request.size",
    "request.headers['x-envoy-attempt-count']",
    "request.headers['traceparent']",
)
"""What ``processor.facts`` reads, beside the attributes that tell clients apart."""


def ext_proc(made: Plan, version: Version) -> ExternalProcessor:
    """The filter's settings, for every mode."""
    settings = made.settings
    shown = settings.mesh.requests == "shown"
    send, body = ProcessingModeHeaderSendMode, ProcessingModeBodySendMode
    ours = MetadataOptionsMetadataNamespaces(untyped=[NAMESPACE])
    options = MetadataOptions(receiving_namespaces=ours)
    if version.has(Feature.CLUSTER_METADATA):
        options.cluster_metadata_forwarding_namespaces = ours
    attributes = dict.fromkeys([*_ATTRIBUTES, *settings.sampling.client_attributes])
    made_filter = ExternalProcessor(
        grpc_service=_service(made),
        failure_mode_allow=True,
        processing_mode=ProcessingMode(
            request_header_mode=send.SEND if shown else send.SKIP,
            request_body_mode=body.STREAMED if shown else body.NONE,
            response_header_mode=send.SEND,
            response_body_mode=body.STREAMED,
            response_trailer_mode=send.SKIP,
        ),
        response_attributes=list(attributes),
        metadata_options=options,
    )
    if made.observe:
        made_filter.observability_mode = True
        return made_filter
    made_filter.message_timeout = seconds(MESSAGE_TIMEOUT)
    if settings.hold.patience > MESSAGE_TIMEOUT:
        made_filter.max_message_timeout = seconds(settings.hold.patience)
    made_filter.send_body_without_waiting_for_header_response = True
    made_filter.mutation_rules = HeaderMutationRules(
        disallow_all=True, allow_expression=RegexMatcher(regex="x-semantic-.*")
    )
    return made_filter


def _service(made: Plan) -> GrpcService:
    service = GrpcService(envoy_grpc=GrpcServiceEnvoyGrpc(cluster_name=SIDECAR))
    if len(made.addresses) > 1:
        other = RetryPolicyRetryHostPredicate(
            name="envoy.retry_host_predicates.previous_hosts",
            typed_config=packed(PreviousHostsPredicate()),
        )
        service.retry_policy = RetryPolicy(
            retry_on="connect-failure,refused-stream,reset,reset-before-request,unavailable",
            num_retries=2,
            retry_host_predicate=[other],
            host_selection_retry_max_attempts=5,
        )
    return service


_HEALTH_BY_TLS = {"semantic_extproc": "health"}
"""Label by which a health check finds the way to an admin server with TLS."""


def ask_health(made: Plan, cluster: Cluster) -> None:
    """``cluster`` asks the sidecar how its hosts are: units, or hosts of one."""
    check = HealthCheck(
        timeout=seconds(0.5),
        interval=seconds(0.5),
        no_traffic_interval=seconds(0.5),
        unhealthy_threshold=1_000_000,
        healthy_threshold=1,
        http_health_check=HealthCheckHttpHealthCheck(path="/unit-health"),
    )
    cluster.health_checks = [check]
    if made.settings.admin.tls is not None:
        label = Struct.from_dict(_HEALTH_BY_TLS)
        check.transport_socket_match_criteria = label
        way = ClusterTransportSocketMatch(
            name="unit-health", match=label, transport_socket=_tls(made, "http/1.1")
        )
        cluster.transport_socket_matches = [way]


def _tls(made: Plan, alpn: str) -> TransportSocket:
    """To the sidecar, by the CA that it was signed with."""
    sidecar = made.settings.mesh.sidecar
    common = CommonTlsContext(
        validation_context=CertificateValidationContext(
            trusted_ca=DataSource(filename=str(sidecar.ca_file))
        ),
        alpn_protocols=[alpn],
    )
    if sidecar.cert_file is not None:
        common.tls_certificates = [
            TlsCertificate(
                certificate_chain=DataSource(filename=str(sidecar.cert_file)),
                private_key=DataSource(filename=str(sidecar.key_file)),
            )
        ]
    context = UpstreamTlsContext(common_tls_context=common, sni=sidecar.server_name)
    return TransportSocket(name="envoy.transport_sockets.tls", typed_config=packed(context))


def asked(made: Plan, subject: str) -> EndpointHealthCheckConfig:
    """The health of ``subject``, a unit or ``unit@host``, is the sidecar's to tell."""
    host, port = made.health
    where = address(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    return EndpointHealthCheckConfig(address=where, hostname=subject)


def wide(max_retries: int | None = None) -> CircuitBreakers:
    """Circuit breakers that do not trip over streams."""
    limits = CircuitBreakersThresholds(
        max_connections=MANY, max_pending_requests=MANY, max_requests=MANY, max_retries=max_retries
    )
    return CircuitBreakers(thresholds=[limits])


def cluster(made: Plan) -> Cluster:
    """The ext_proc servers: one endpoint a worker."""
    named = any(
        not text.startswith("unix:") and not is_ip(split(text)[0]) for text in made.addresses
    )
    result = Cluster(
        name=SIDECAR,
        type=ClusterDiscoveryType.STRICT_DNS if named else ClusterDiscoveryType.STATIC,
        connect_timeout=seconds(0.25),
        circuit_breakers=wide(max_retries=1000 if len(made.addresses) > 1 else None),
        load_assignment=ClusterLoadAssignment(
            cluster_name=SIDECAR,
            endpoints=[
                LocalityLbEndpoints(
                    lb_endpoints=[
                        LbEndpoint(endpoint=Endpoint(address=address(text)))
                        for text in made.addresses
                    ]
                )
            ],
        ),
        typed_extension_protocol_options={
            UPSTREAM_OPTIONS: packed(
                Upstream(
                    explicit_http_config=Explicit(http2_protocol_options=Http2ProtocolOptions())
                )
            )
        },
    )
    if len(made.addresses) > 1:
        result.lb_policy = ClusterLbPolicy.LEAST_REQUEST
        result.health_checks = [
            HealthCheck(
                timeout=seconds(0.5),
                interval=seconds(0.5),
                no_traffic_interval=seconds(0.5),
                unhealthy_threshold=1,
                healthy_threshold=1,
                grpc_health_check=HealthCheckGrpcHealthCheck(),
            )
        ]
    if made.settings.grpc.tls is not None:
        result.transport_socket = _tls(made, "h2")
    return result
