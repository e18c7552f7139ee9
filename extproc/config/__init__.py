"""One typed model of every setting, read from a file and the environment."""

from extproc.config.load import ConfigError, explained, load, parse, place, read
from extproc.config.model import Settings

__all__ = ["ConfigError", "Settings", "explained", "load", "parse", "place", "read"]
