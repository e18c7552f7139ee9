"""What a count costs: prometheus_client as it is, beside its multiprocess mode.

usage: python -m bench.counting
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import timeit

from rich.console import Console
from rich.table import Table

TIMES = 50_000


def measure() -> dict[str, float]:
    """Microseconds a call, the best of several rounds, in the mode that the environment sets."""
    import prometheus_client

    registry = prometheus_client.CollectorRegistry()
    counter = prometheus_client.Counter("a", "a", ("x", "y"), registry=registry)
    histogram = prometheus_client.Histogram("b", "b", registry=registry)
    child = counter.labels("x", "y")
    calls = {
        "count": child.inc,
        "count, labels looked up": lambda: counter.labels("x", "y").inc(),
        "observe": lambda: histogram.observe(0.3),
    }
    return {
        name: min(timeit.repeat(call, number=TIMES, repeat=5)) / TIMES * 1e6
        for name, call in calls.items()
    }


def main() -> None:
    """Prints the table. The mode is chosen at import, hence a process for each."""
    with tempfile.TemporaryDirectory() as folder:
        modes = {"one process": {}, "multiprocess mode": {"PROMETHEUS_MULTIPROC_DIR": folder}}
        found = {
            mode: json.loads(
                subprocess.check_output(
                    [sys.executable, "-m", "bench.counting", "measure"],
                    env={**os.environ, **environment},
                )
            )
            for mode, environment in modes.items()
        }
    table = Table("µs a call", *found)
    for name in next(iter(found.values())):
        table.add_row(name, *(f"{each[name]:.2f}" for each in found.values()))
    Console().print(table)


if __name__ == "__main__":
    if sys.argv[1:] == ["measure"]:
        print(json.dumps(measure()))
    else:
        main()
