"""The plain rule file as a PrometheusRule of the Prometheus Operator."""

from __future__ import annotations

import yaml

HEAD = """\
# rules.yaml as the Prometheus Operator takes it; made by `make docs`, change rules.yaml instead.
# Give it the labels that your Prometheus selects rules by (spec.ruleSelector).
"""


class _Dumper(yaml.SafeDumper):
    pass


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = "|" if "\n" in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_Dumper.add_representer(str, _text)


def manifest(rules: str) -> str:
    """The manifest for the text of a rule file."""
    content = {
        "apiVersion": "monitoring.coreos.com/v1",
        "kind": "PrometheusRule",
        "metadata": {
            "name": "semantic-extproc",
            "labels": {"app.kubernetes.io/name": "semantic-extproc"},
        },
        "spec": yaml.safe_load(rules),
    }
    return HEAD + yaml.dump(content, Dumper=_Dumper, sort_keys=False, width=1000)
