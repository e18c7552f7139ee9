"""Envoy's messages, compiled: strict about every field, as control planes are."""

from __future__ import annotations

from typing import Any

# Messages inside of `Any` are parsed by name, so their classes must be there.
from envoy.config.bootstrap.v3 import bootstrap_pb2
from envoy.config.cluster.v3 import cluster_pb2
from envoy.config.listener.v3 import listener_pb2
from envoy.config.route.v3 import route_components_pb2, route_pb2
from envoy.extensions.access_loggers.file.v3 import file_pb2 as _file
from envoy.extensions.bootstrap.internal_listener.v3 import internal_listener_pb2 as _internal
from envoy.extensions.filters.http.ext_proc.v3 import ext_proc_pb2 as _ext_proc
from envoy.extensions.filters.http.router.v3 import router_pb2 as _router
from envoy.extensions.filters.network.http_connection_manager.v3 import (
    http_connection_manager_pb2 as _manager,
)
from envoy.extensions.retry.host.previous_hosts.v3 import previous_hosts_pb2 as _previous_hosts
from envoy.extensions.retry.priority.previous_priorities.v3 import (
    previous_priorities_config_pb2 as _priorities,
)
from envoy.extensions.transport_sockets.raw_buffer.v3 import raw_buffer_pb2 as _raw
from envoy.extensions.transport_sockets.tls.v3 import tls_pb2 as _tls
from envoy.extensions.upstreams.http.v3 import http_protocol_options_pb2 as _options
from google.protobuf import json_format

ANY = (
    *(_file, _internal, _ext_proc, _router, _manager, _previous_hosts, _priorities),
    *(_raw, _tls, _options),
)

Listener: Any = listener_pb2.Listener
Cluster: Any = cluster_pb2.Cluster
Route: Any = route_components_pb2.Route
RouteConfiguration: Any = route_pb2.RouteConfiguration
Bootstrap: Any = bootstrap_pb2.Bootstrap


def parse(kind: Any, tree: Any) -> Any:
    """A message of ``tree``. Raises ``json_format.ParseError`` on a field it does not have."""
    return json_format.ParseDict(tree, kind())


def plain(message: Any) -> Any:
    """The tree of a message, with the proto's own names."""
    return json_format.MessageToDict(message, preserving_proto_field_name=True)


def merge(into: Any, message: Any) -> None:
    """Merges as istiod does: like protobuf, but a duration takes the other's place."""
    for field, value in message.ListFields():
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            target = getattr(into, field.name)
            for key in value:
                if field.message_type.fields_by_name["value"].message_type is not None:
                    target[key].CopyFrom(value[key])
                else:
                    target[key] = value[key]
        elif field.is_repeated:
            getattr(into, field.name).extend(value)
        elif field.message_type is None:
            setattr(into, field.name, value)
        elif field.message_type.full_name == "google.protobuf.Duration":
            getattr(into, field.name).CopyFrom(value)
        else:
            child = getattr(into, field.name)
            child.SetInParent()
            merge(child, value)
