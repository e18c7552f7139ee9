"""The gRPC edge: the Process RPC, the hold, the server and its drain."""

from extproc.processor.hold import HoldPolicy
from extproc.processor.server import Server, ServerSettings
from extproc.processor.services import Services

__all__ = ["HoldPolicy", "Server", "ServerSettings", "Services"]
