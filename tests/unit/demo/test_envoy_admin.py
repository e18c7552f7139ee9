"""Envoy's own words about hosts are read as they stand."""

from __future__ import annotations

from extproc.demo.envoy import _hosts, loopback, unit_address

CLUSTERS = """\
llm::observability_name::llm
llm::outlier::success_rate_average::-1
llm::default_priority::max_retries::1000
llm::envoy://unit_a/::rq_total::17
llm::envoy://unit_a/::health_flags::/failed_active_hc/failed_outlier_check
llm::envoy://unit_b/::rq_total::4
llm::envoy://unit_b/::health_flags::healthy
unit_a::127.0.0.1:8001::rq_total::3
"""


def test_flags_and_requests_of_every_host() -> None:
    hosts = _hosts(CLUSTERS)
    out = hosts["llm", unit_address("unit_a")]
    assert out.flags == {"failed_active_hc", "failed_outlier_check"}
    assert out.requests == 17
    assert hosts["llm", unit_address("unit_b")].flags == frozenset()
    assert hosts["unit_a", loopback(8001)].requests == 3
    assert len(hosts) == 3
