"""Does anything cut a stream, or stop its reading?"""

from __future__ import annotations

from collections.abc import Iterator

from extproc.mesh.audit.checks.sidecar import LONG
from extproc.mesh.audit.finding import Hit, Severity, Theme
from extproc.mesh.audit.reach import Leg, Mesh
from extproc.mesh.audit.world import MIB

THEME = Theme("Streams")

QUIET = 60.0
"""Seconds. A long prompt is read in silence."""


def legs(mesh: Mesh) -> Iterator[Leg]:
    """Every leg of a way to a unit, shadows left out, once."""
    seen = set()
    for way in mesh.ways:
        if not way.guards and way.cluster.name not in mesh.units:
            continue
        for leg in way.legs:
            if not leg.mirrored and leg.route.node.path not in seen:
                seen.add(leg.route.node.path)
                yield leg


@THEME.check(
    "route-timeout",
    Severity.ERROR,
    "the route's timeout cuts long answers",
    "It runs until the last byte and is 15 s unless set: a longer generation ends with 504 or in "
    "the middle. From a unit's tier that is held against the unit.",
    "route: {timeout: 0s}   # stream_idle_timeout guards what hangs",
)
def route_timeout(mesh: Mesh) -> Iterator[Hit]:
    for leg in legs(mesh):
        at = leg.route.action["timeout"]
        if leg.route.patched and not at:
            continue
        seconds = at.seconds(15)
        if 0 < seconds < LONG:
            said = f"{seconds:g} s" if at else "unset, hence 15 s"
            severity = None if seconds <= 60 else Severity.WARNING
            yield Hit(at, f"{leg.route.of}, {leg.manager.of}", said, severity=severity)


@THEME.check(
    "try-timeout",
    Severity.ERROR,
    "a timeout of each try cuts answers",
    "per_try_timeout runs to the last byte of a try, and what it cuts after the first byte is no "
    "longer retried; per_try_idle_timeout and hedging on it end a silent prefill.",
    "# no per_try_timeout",
)
def try_timeout(mesh: Mesh) -> Iterator[Hit]:
    for leg in legs(mesh):
        for name, least in (("per_try_timeout", LONG), ("per_try_idle_timeout", QUIET)):
            at = leg.route.retry[name]
            if 0 < at.seconds(0) < least:
                severity = None if at.seconds(0) <= 60 else Severity.WARNING
                yield Hit(at, leg.route.of, f"{at.seconds(0):g} s", severity=severity)


@THEME.check(
    "idle-timeout",
    Severity.WARNING,
    "an idle timeout ends streams that are only silent",
    "While an engine reads a long prompt nothing flows, for a minute and more; then the client "
    "gets 504, or a stream cut off.",
    "stream_idle_timeout: 300s",
)
def idle_timeout(mesh: Mesh) -> Iterator[Hit]:
    for leg in legs(mesh):
        own = leg.route.action["idle_timeout"]
        at = own if own else leg.manager.node["stream_idle_timeout"]
        if 0 < at.seconds(300) < QUIET:
            yield Hit(at, leg.route.of if own else leg.manager.of, f"{at.seconds(0):g} s")


@THEME.check(
    "max-stream-duration",
    Severity.WARNING,
    "a limit on the duration of streams cuts answers",
    "It runs to the last byte, whatever flows.",
    "# no max_stream_duration, or well above the longest generation",
)
def max_stream_duration(mesh: Mesh) -> Iterator[Hit]:
    for leg in legs(mesh):
        for at, of in (
            (leg.route.action.at("max_stream_duration", "max_stream_duration"), leg.route.of),
            (
                leg.manager.node.at("common_http_protocol_options", "max_stream_duration"),
                leg.manager.of,
            ),
        ):
            if 0 < at.seconds(0) < LONG:
                yield Hit(at, of, f"{at.seconds(0):g} s")
    for cluster in {**mesh.front_clusters, **mesh.units}.values():
        at = cluster.options.at("common_http_protocol_options", "max_stream_duration")
        if 0 < at.seconds(0) < LONG:
            yield Hit(at, cluster.of, f"{at.seconds(0):g} s")


@THEME.check(
    "buffer-below-hold",
    Severity.ERROR,
    "the connection buffer is smaller than what the sidecar holds",
    "While headers are held Envoy buffers the body, and stops reading at "
    "per_connection_buffer_limit_bytes (1 MiB by default). A limit near hold.bytes (64 KiB) stalls "
    "the answer until the hold's deadline.",
    "per_connection_buffer_limit_bytes: 1048576",
)
def buffer_below_hold(mesh: Mesh) -> Iterator[Hit]:
    settings = mesh.world.settings
    held = settings.hold.bytes if settings is not None else 65536
    for way in mesh.inspected:
        for at, guard in way.guards:
            if not guard.holds:
                continue
            listener = way.legs[at].manager
            for place, of in (
                (listener.listener_node["per_connection_buffer_limit_bytes"], listener.of),
                (way.cluster.node["per_connection_buffer_limit_bytes"], way.cluster.of),
            ):
                most = place.number(MIB)
                if most < 2 * held:
                    yield Hit(place, of, f"{most:g} bytes, and {held} are held")


@THEME.check(
    "buffer-huge",
    Severity.INFO,
    "each connection may buffer very much",
    "Envoy's memory is the limit times the connections that are slow to read.",
    "per_connection_buffer_limit_bytes: 1048576",
)
def buffer_huge(mesh: Mesh) -> Iterator[Hit]:
    for leg in legs(mesh):
        at = leg.manager.listener_node["per_connection_buffer_limit_bytes"]
        if at.number(0) > 64 * MIB:
            yield Hit(at, leg.manager.of, f"{at.number(0):g} bytes")
