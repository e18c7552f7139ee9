"""The real thing on one machine: Envoy, two units, the sidecar, clients, and a bad release."""

from extproc.demo.errors import Broken, Missing
from extproc.demo.run import Options, run
from extproc.demo.upstream import Upstream
from extproc.demo.view import choose_view, closing

__all__ = ["Broken", "Missing", "Options", "Upstream", "choose_view", "closing", "run"]
