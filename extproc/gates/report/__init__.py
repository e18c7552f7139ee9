"""A finished run, for terminals, for CI and for pull requests."""

from extproc.gates.report.junit import junit
from extproc.gates.report.markdown import markdown
from extproc.gates.report.table import table

__all__ = ["junit", "markdown", "table"]
