"""Debian's Prometheus and Chromium, for the tests that want the real thing."""

from __future__ import annotations

import os
import shutil

import pytest

REQUIRED = "SEMANTIC_EXTPROC_TEST_OBSERVABILITY"
"""Set where these tests must not be left out, as CI does."""


def binary(name: str, package: str) -> str:
    """The path of a program; without it the test is left out, or fails where it is required."""
    found = shutil.which(name)
    if found is None:
        missing = f"needs {name}: apt-get install {package} (Debian, Ubuntu)"
        if os.environ.get(REQUIRED):
            pytest.fail(missing)
        pytest.skip(missing)
    return found
