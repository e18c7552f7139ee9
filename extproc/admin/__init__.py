"""The HTTP edge: /metrics, /unit-health for Envoy, /healthz, /api, the status page."""

from extproc.admin.app import make_app
from extproc.admin.server import AdminServer

__all__ = ["AdminServer", "make_app"]
