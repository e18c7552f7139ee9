"""What an engine says while it starts: alarms, and the execution path that it took."""

from extproc.gates.startup.log import Alarm, StartupLog, read_log
from extproc.gates.startup.values import Scalar, normal

__all__ = ["Alarm", "Scalar", "StartupLog", "normal", "read_log"]
