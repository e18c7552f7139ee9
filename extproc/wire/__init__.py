"""Bytes -> events. Sans-IO: no clock, no sockets, nothing that a body can make raise."""

from extproc.wire.encoding import UnknownEncoding
from extproc.wire.events import (
    Channel,
    Event,
    Failure,
    Finish,
    Layer,
    Logprobs,
    Malformed,
    NonFinite,
    Terminator,
    Text,
    TooLarge,
    ToolCall,
    Usage,
)
from extproc.wire.reader import Framing, Limits, Reader
from extproc.wire.route import DIALECTS, Route, Router

__all__ = [
    "DIALECTS",
    "Channel",
    "Event",
    "Failure",
    "Finish",
    "Framing",
    "Layer",
    "Limits",
    "Logprobs",
    "Malformed",
    "NonFinite",
    "Reader",
    "Route",
    "Router",
    "Terminator",
    "Text",
    "TooLarge",
    "ToolCall",
    "UnknownEncoding",
    "Usage",
]
