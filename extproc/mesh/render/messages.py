"""Short words for what every Envoy message needs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, cast

from betterproto2 import Casing, Message
from envoy_data_plane.envoy.config.core.v3 import (
    Address,
    EnvoyInternalAddress,
    Metadata,
    Pipe,
    SocketAddress,
)
from envoy_data_plane.google.protobuf import Any as Packed
from envoy_data_plane.google.protobuf import Struct

from extproc.config.mesh import split

NAMESPACE = "semantic.extproc"
"""Envoy metadata namespace of unit, release, host and verdict."""

INTERNAL_LISTENER = "envoy.bootstrap.internal_listener"
"""The bootstrap extension without which Envoy refuses internal listeners."""

MARKER = "x-semantic-verdict"
"""Response header by which the sidecar asks for a retry."""

Tree = dict[str, Any]


def seconds(value: float) -> timedelta:
    return timedelta(seconds=value)


def packed(message: Message) -> Packed:
    """``message`` as an ``Any``."""
    return Packed.pack(message)


def address(text: str) -> Address:
    """Of "host:port" or "unix:///path"."""
    if text.startswith("unix://"):
        return Address(pipe=Pipe(path=text.removeprefix("unix://")))
    host, port = split(text)
    return Address(socket_address=SocketAddress(address=host, port_value=port))


def internal(listener: str) -> Address:
    """Of an internal listener."""
    return Address(envoy_internal_address=EnvoyInternalAddress(server_listener_name=listener))


def metadata(**fields: str) -> Metadata:
    """Ours, without the empty ones."""
    said = {name: value for name, value in fields.items() if value}
    return Metadata(filter_metadata={NAMESPACE: Struct.from_dict(said)})


def tree(message: Message) -> Tree:
    """``message`` as Envoy's YAML has it: the proto's own names, defaults left out."""
    # Names stay as they are: betterproto2's snake case would write consecutive_5_xx.
    return cast(Tree, _tidy(message.to_dict(casing=cast(Casing, str))))


_DURATION = re.compile(r"(\d+)\.(\d+)s")

_FIRST = (
    *("admin", "bootstrap_extensions", "layered_runtime", "name", "address", "internal_listener"),
    *("stat_prefix", "stream_idle_timeout", "use_remote_address", "generate_request_id"),
    *("access_log", "domains", "request_body_buffer_limit", "include_request_attempt_count"),
    *(
        "request_headers_to_remove",
        "response_headers_to_remove",
        "priority",
        "type",
        "connect_timeout",
        "metadata",
    ),
    *("grpc_service", "failure_mode_allow", "observability_mode", "message_timeout"),
    *("max_message_timeout", "send_body_without_waiting_for_header_response"),
    *("timeout", "interval", "no_traffic_interval"),
)
"""Fields that stand first where they occur; all others keep the order of the proto."""

_SPELT_OUT = {"healthy_panic_threshold": {"value": 0}}
"""What an empty message means, where that is not plain."""


def _tidy(value: Any) -> Any:
    """In a readable order; durations without trailing zeros."""
    if isinstance(value, Mapping):
        order = {name: at for at, name in enumerate(_FIRST)}
        keys = sorted(value, key=lambda key: (key != "@type", order.get(key, len(order))))
        return {key: _tidy(value[key] or _SPELT_OUT.get(key, value[key])) for key in keys}
    if isinstance(value, list):
        return [_tidy(entry) for entry in value]
    if isinstance(value, str) and (found := _DURATION.fullmatch(value)):
        fraction = found[2].rstrip("0")
        return f"{found[1]}.{fraction}s" if fraction else f"{found[1]}s"
    return value
