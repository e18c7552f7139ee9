"""Settings of webhooks and of the xDS server."""

from __future__ import annotations

from pathlib import Path

import pytest

from extproc.config import ConfigError, Settings, parse

UNITS = "units: [{id: a}, {id: b}]\n"


def problems(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(UNITS + text, "x.yaml")
    return [problem.partition(": ")[2] for problem in caught.value.problems]


def good(text: str) -> Settings:
    return parse(UNITS + text, "x.yaml")


def xds(clusters: str) -> str:
    return f'xds:\n  address: ":18082"\n  clusters:\n  - {{name: c, endpoints: [{clusters}]}}\n'


def test_both_are_off_unless_asked_for() -> None:
    settings = good("")
    assert settings.webhooks == []
    assert settings.xds.address is None


@pytest.mark.parametrize("address", ["10.0.0.1:80", "'[::1]:80'", "envoy://u_a", "unix:///s"])
def test_an_endpoint_may_be_written_in_three_forms(address: str) -> None:
    (cluster,) = good(xds(f"{{address: {address}, unit: a}}")).xds.clusters
    assert cluster.endpoints[0].address == address.strip("'")


@pytest.mark.parametrize(
    "address", ["10.0.0.1", "10.0.0.1:0", "10.0.0.1:70000", "envoy://", "unix:s", "''", "':80'"]
)
def test_any_other_form_is_refused(address: str) -> None:
    (problem,) = problems(xds(f"{{address: {address}, unit: a}}"))
    assert problem.startswith("xds.clusters[0].endpoints[0].address: ")


def test_a_host_name_is_refused_because_envoy_would() -> None:
    assert problems(xds("{address: 'llm.local:80', unit: a}")) == [
        "xds.clusters[0].endpoints[0].address: 'llm.local' is no IP address; "
        'write "ip:port", "envoy://internal-listener" or "unix:///absolute/path"'
    ]


def test_priorities_have_no_gap() -> None:
    (problem,) = problems(xds("{address: '1.1.1.1:1', unit: a, priority: 1}"))
    assert "without a gap" in problem


def test_everything_that_is_followed_must_exist() -> None:
    text = """\
xds:
  address: ":18082"
  clusters:
  - name: c
    endpoints:
    - {address: "1.1.1.1:1", unit: z}
    - {address: "1.1.1.1:2", unit: a, context_class: huge}
  runtime:
    keys: [{key: k, unit: y, weight: 1}]
"""
    assert problems(text) == [
        "xds.clusters[0].endpoints[0].unit: 'z' is no unit",
        "xds.clusters[0].endpoints[1].context_class: 'huge' is no context class",
        "xds.runtime.keys[0].unit: 'y' is no unit",
    ]


def test_names_stand_once() -> None:
    endpoint = "endpoints: [{address: '1.1.1.1:1', unit: a}]"
    text = f"""\
webhooks: [{{name: n, url: "http://x"}}, {{name: n, url: "http://y"}}]
xds:
  address: ":18082"
  clusters: [{{name: c, {endpoint}}}, {{name: c, {endpoint}}}]
  runtime: {{keys: [{{key: k, unit: a, weight: 1}}, {{key: k, unit: b, weight: 1}}]}}
"""
    assert problems(text) == [
        "webhooks[1].name: 'n' stands in webhooks[0] already",
        "xds.clusters[1].name: 'c' stands in xds.clusters[0] already",
        "xds.runtime.keys[1].key: 'k' stands in xds.runtime.keys[0] already",
    ]


def test_a_server_without_content_and_content_without_a_server_are_refused() -> None:
    (nothing,) = problems('xds: {address: ":1"}\n')
    assert nothing == "xds.address: there is nothing to serve; list clusters or runtime"
    (nowhere,) = problems("xds: {runtime: {keys: [{key: k, unit: a, weight: 1}]}}\n")
    assert nowhere == "xds.address: is missing; nothing is served without it"


@pytest.mark.parametrize("url", ["ftp://x", "x", "http://", "''"])
def test_a_webhook_goes_to_a_url(url: str) -> None:
    assert problems(f"webhooks: [{{name: n, url: {url}}}]\n") == [
        "webhooks[0].url: write http://... or https://..."
    ]


def test_a_secret_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hook = "webhooks: [{name: n, url: 'http://x', %s}]\n"
    monkeypatch.delenv("HOOK_SECRET", raising=False)
    (unset,) = problems(hook % "secret_env: HOOK_SECRET")
    assert "HOOK_SECRET is not set" in unset
    monkeypatch.setenv("HOOK_SECRET", "s")
    assert good(hook % "secret_env: HOOK_SECRET")
    path = tmp_path / "secret"
    (missing,) = problems(hook % f"secret_file: {path}")
    assert "cannot be read" in missing
    path.write_text("\n")
    (empty,) = problems(hook % f"secret_file: {path}")
    assert "empty" in empty
    path.write_text("s\n")
    assert good(hook % f"secret_file: {path}")
    (both,) = problems(hook % f"secret_file: {path}, secret_env: HOOK_SECRET")
    assert "exclude" in both


def test_a_configuration_that_is_printed_holds_no_secret(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOOK_SECRET", "canary-of-a-secret")
    url = "https://hooks.example.com/canary-of-a-capability"
    settings = good(f"webhooks: [{{name: n, url: '{url}', secret_env: HOOK_SECRET}}]\n")
    assert "canary" not in settings.model_dump_json()
