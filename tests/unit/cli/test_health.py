"""``semantic-extproc health``, which container images ask."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from extproc.admin import make_app
from extproc.cli import app
from tests.unit.cli.sidecar import served
from tests.unit.services import services_of


@pytest.mark.parametrize(("serving", "code"), [(True, 0), (False, 1)])
def test_it_tells_whether_the_sidecar_serves(serving: bool, code: int) -> None:
    services = services_of()
    with served(lambda: make_app(services, lambda: serving)) as address:
        result = CliRunner().invoke(app, ["health", "--admin", address])
    assert result.exit_code == code
    assert ("ok" in result.stdout) is serving


def test_it_fails_where_nobody_answers() -> None:
    result = CliRunner().invoke(app, ["health", "--admin", "http://127.0.0.1:1"])
    assert result.exit_code == 2
    assert "no sidecar answers" in result.stderr
