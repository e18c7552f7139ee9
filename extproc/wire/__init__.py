"""Bytes -> events. Sans-IO: no clock, no sockets, nothing that a body can make raise."""

from extproc.wire.dialects import DIALECTS
from extproc.wire.encoding import UnknownEncoding
from extproc.wire.events import (
    Cause,
    Channel,
    Ended,
    Event,
    Failure,
    Finish,
    Form,
    Layer,
    Logprobs,
    Malformed,
    NonFinite,
    Scores,
    Status,
    Terminator,
    Text,
    Texts,
    TooLarge,
    ToolCall,
    Unterminated,
    Usage,
    Vector,
    apart,
)
from extproc.wire.framing import Framing
from extproc.wire.reader import Limits, Reader
from extproc.wire.request import OutputFormat, RequestFacts
from extproc.wire.route import Route, Router

__all__ = [
    "DIALECTS",
    "Cause",
    "Channel",
    "Ended",
    "Event",
    "Failure",
    "Finish",
    "Form",
    "Framing",
    "Layer",
    "Limits",
    "Logprobs",
    "Malformed",
    "NonFinite",
    "OutputFormat",
    "Reader",
    "RequestFacts",
    "Route",
    "Router",
    "Scores",
    "Status",
    "Terminator",
    "Text",
    "Texts",
    "TooLarge",
    "ToolCall",
    "UnknownEncoding",
    "Unterminated",
    "Usage",
    "Vector",
    "apart",
]
