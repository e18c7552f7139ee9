"""semantic-extproc: watches what LLM engines answer, from inside Envoy."""

__version__ = "0.1.0"
