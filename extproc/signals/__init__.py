"""State -> the world: metrics and Envoy's health checks."""

from extproc.signals.metrics import Metrics
from extproc.signals.sink import Sink
from extproc.signals.unit_health import Answer, answer

__all__ = ["Answer", "Metrics", "Sink", "answer"]
