"""One typed model of every setting, read from a file and the environment."""

from extproc.config.load import ConfigError, load, parse, place, read
from extproc.config.model import Settings

__all__ = ["ConfigError", "Settings", "load", "parse", "place", "read"]
