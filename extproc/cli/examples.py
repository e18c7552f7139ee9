"""What ``--help`` shows at its end: lines to copy. A test parses every one of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import typer

EXAMPLES: dict[str, tuple[str, ...]] = {
    "demo": (
        "semantic-extproc demo",
        "semantic-extproc demo --upstream recorded --seconds 20 --json",
    ),
    "serve": (
        "semantic-extproc serve --config extproc.yaml",
        "SEMANTIC_EXTPROC_LOG__LEVEL=debug semantic-extproc serve -c extproc.yaml --workers 1",
    ),
    "config": (
        "semantic-extproc config extproc.yaml",
        "semantic-extproc config --schema > extproc.schema.json",
    ),
    "render": (
        "semantic-extproc render --target standalone --config extproc.yaml -o .",
        "semantic-extproc render --target istio -c extproc.yaml -o istio/ --check",
    ),
    "audit": (
        "semantic-extproc audit envoy.yaml --config extproc.yaml",
        "semantic-extproc audit http://127.0.0.1:9901 --sidecar http://127.0.0.1:18081",
        "semantic-extproc audit envoy.yaml --json --strict",
    ),
    "inspect": (
        "semantic-extproc inspect recorded.jsonl.gz session.har",
        "curl -s localhost:8000/v1/chat/completions -d @ask.json | semantic-extproc inspect -",
        "semantic-extproc inspect -o json recorded.jsonl | jq 'select(.verdict == \"corrupt\")'",
    ),
    "baseline": ("semantic-extproc baseline healthy.jsonl.gz --model my-model > baseline.yaml",),
    "detectors": ("semantic-extproc detectors", "semantic-extproc detectors -o json"),
    "status": (
        "semantic-extproc status --watch",
        "semantic-extproc status --json --admin http://10.0.0.5:18081",
    ),
    "quarantine": ("semantic-extproc quarantine unit-a --reason 'garbage since 14:05'",),
    "release": ("semantic-extproc release unit-a --reason 'rolled back to r1'",),
    "evidence": (
        "semantic-extproc evidence --unit unit-a --limit 5",
        "semantic-extproc evidence 66173fbcbb936-7277fc67",
    ),
    "probe": (
        "semantic-extproc probe unit-a",
        "semantic-extproc probe --url http://localhost:8000 --kind golden --kind long",
    ),
    "health": ("semantic-extproc health --admin http://127.0.0.1:18081",),
    "run": (
        "semantic-extproc gate run --settings settings.json --config config.toml",
        "semantic-extproc gate run --settings settings.json --config config.toml --gates 1-3 "
        "--junit gates.xml",
    ),
    "approve": ("semantic-extproc gate approve r2 --reason 'runs on a CPU, as it should'",),
    "releases": ("semantic-extproc gate releases",),
    "verify-fallback": (
        "semantic-extproc gate verify-fallback unit-a --settings settings.json "
        "--config config.toml",
    ),
}
"""The name of a command (of ``gate``, without it), and its examples."""


def register(app: typer.Typer, command: Callable[..., Any], panel: str | None = None) -> None:
    """Makes a function a command, with its examples, and its help as wide as the terminal is."""
    name = command.__name__.replace("_", "-")
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    app.command(
        help="\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs),
        epilog="\n\n".join(["Examples:", *EXAMPLES[name]]),
        rich_help_panel=panel,
    )(command)
