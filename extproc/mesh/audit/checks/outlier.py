"""Does Envoy's own outlier detection count marked answers, and keep what it ejects out?"""

from __future__ import annotations

from collections.abc import Iterator

from extproc.mesh.audit.checks.balancing import guarded_clusters
from extproc.mesh.audit.checks.retrying import holding
from extproc.mesh.audit.finding import Hit, Severity, Theme
from extproc.mesh.audit.matchers import HEALTHY, MARKED, matches_response
from extproc.mesh.audit.node import Node
from extproc.mesh.audit.reach import Mesh
from extproc.mesh.audit.world import Cluster

THEME = Theme("Outlier detection")

DETECTION = """
outlier_detection:
  consecutive_5xx: 3
  enforcing_consecutive_5xx: 100
  enforcing_success_rate: 0
  interval: 1s
  base_ejection_time: 30s
  max_ejection_percent: 50
  successful_active_health_check_uneject_host: false
"""

MATCHER = """
outlier_detection:            # in HttpProtocolOptions
  error_matcher:
    or_match:
      rules:
      - http_response_headers_match:
          headers: [{name: x-semantic-verdict, string_match: {exact: corrupt}}]
      - http_response_headers_match:
          headers: [{name: ":status", string_match: {safe_regex: {regex: "5[0-9][0-9]"}}}]
"""

FIELD_5XX = "enforcing_consecutive_5xx"


def detecting(mesh: Mesh) -> Iterator[tuple[Cluster, Node]]:
    """The guarded clusters with outlier detection, and where it stands."""
    for cluster in guarded_clusters(mesh):
        if cluster.node["outlier_detection"]:
            yield cluster, cluster.node["outlier_detection"]


def matchers(mesh: Mesh) -> Iterator[tuple[Cluster, Node]]:
    """The error matchers of clusters whose answers are marked in time."""
    seen = set()
    for front in holding(mesh):
        cluster = front.cluster
        if cluster is not None and cluster.name not in seen:
            seen.add(cluster.name)
            yield cluster, cluster.options.at("outlier_detection", "error_matcher")


@THEME.check(
    "outlier-missing",
    Severity.WARNING,
    "no outlier detection over the units",
    "It reacts per answer, before any health check; without it a unit that turned bad costs every "
    "request a retry until the sidecar has proof enough to quarantine it.",
    DETECTION,
)
def outlier_missing(mesh: Mesh) -> Iterator[Hit]:
    fronts = {front.cluster.name for front in holding(mesh) if front.cluster is not None}
    for cluster in guarded_clusters(mesh):
        above = [name for name in fronts if cluster.name in (mesh.world.clusters[name].members)]
        if (cluster.name in fronts or above) and not cluster.node["outlier_detection"]:
            yield Hit(cluster.node["outlier_detection"], cluster.of)


@THEME.check(
    "error-matcher-missing",
    Severity.ERROR,
    "outlier detection does not count marked answers",
    "To Envoy a marked answer is a 200. Only an error_matcher on the marker makes it an error "
    "(then two of them ejected the host: ejections_enforced_consecutive_5xx).",
    MATCHER,
)
def error_matcher_missing(mesh: Mesh) -> Iterator[Hit]:
    for cluster, matcher in matchers(mesh):
        names = cluster.aggregate or (cluster.name,)
        members = [mesh.world.cluster(name) for name in names]
        if not any(member is not None and member.node["outlier_detection"] for member in members):
            continue
        if not matcher or not matches_response(matcher, MARKED):
            said = "it matches no answer with x-semantic-verdict: corrupt" if matcher else ""
            yield Hit(matcher, cluster.of, said)


@THEME.check(
    "error-matcher-hides-5xx",
    Severity.ERROR,
    "with this error_matcher real 5xx no longer count",
    "A matcher replaces Envoy's own notion of an error: with the header alone, 12 answers of 503 "
    "ejected nothing.",
    MATCHER,
)
def error_matcher_hides_5xx(mesh: Mesh) -> Iterator[Hit]:
    for cluster, matcher in matchers(mesh):
        missed = [
            status
            for status in ("500", "502", "503", "504")
            if matcher and not matches_response(matcher, {":status": status})
        ]
        if missed:
            yield Hit(matcher, cluster.of, f"{', '.join(missed)} do not match")


@THEME.check(
    "error-matcher-takes-healthy",
    Severity.ERROR,
    "the error_matcher counts healthy answers as errors",
    "Every unit is ejected in turn, for nothing.",
    MATCHER,
)
def error_matcher_takes_healthy(mesh: Mesh) -> Iterator[Hit]:
    for cluster, matcher in matchers(mesh):
        if matcher and matches_response(matcher, HEALTHY):
            yield Hit(matcher, cluster.of)


@THEME.check(
    "uneject-on-health-check",
    Severity.ERROR,
    "a passed health check undoes the ejection",
    "successful_active_health_check_uneject_host is true by default: the next good health check "
    "let an ejected unit back in within 1.6 s.",
    "outlier_detection: {successful_active_health_check_uneject_host: false}",
)
def uneject_on_health_check(mesh: Mesh) -> Iterator[Hit]:
    for cluster, detection in detecting(mesh):
        at = detection["successful_active_health_check_uneject_host"]
        if cluster.node["health_checks"].items() and at.flag(True):
            yield Hit(at, cluster.of, "" if at else "unset, hence true")


@THEME.check(
    "ejection-not-enforced",
    Severity.ERROR,
    "consecutive errors do not eject",
    "enforcing_consecutive_5xx is the chance, in percent, that a unit which answered "
    "consecutive_5xx errors in a row is in fact ejected.",
    "outlier_detection: {consecutive_5xx: 3, enforcing_consecutive_5xx: 100}",
)
def ejection_not_enforced(mesh: Mesh) -> Iterator[Hit]:
    for cluster, detection in detecting(mesh):
        chance = detection[FIELD_5XX].number(100)
        override = mesh.world.runtime_number(f"outlier_detection.{FIELD_5XX}")
        chance = chance if override is None else override
        if chance < 100:
            severity = None if chance < 50 else Severity.WARNING
            yield Hit(detection[FIELD_5XX], cluster.of, f"{chance:g} %", severity=severity)


@THEME.check(
    "ejection-late",
    Severity.WARNING,
    "many errors in a row are needed to eject",
    "Each of them is a request that was retried or lost; a unit that answers only garbage is plain "
    "after three.",
    "outlier_detection: {consecutive_5xx: 3}",
)
def ejection_late(mesh: Mesh) -> Iterator[Hit]:
    for cluster, detection in detecting(mesh):
        at = detection["consecutive_5xx"]
        if at.number(5) > 10:
            yield Hit(at, cluster.of, f"it is {at.number(5):g}")


@THEME.check(
    "ejection-percent",
    Severity.ERROR,
    "max_ejection_percent forbids the ejection of a single unit",
    "Envoy ejects only while the share that is out stays within it. The default is 10 %: of two "
    "units one is 50 %, and nothing is ever ejected (ejections_overflow).",
    "outlier_detection: {max_ejection_percent: 50}",
)
def ejection_percent(mesh: Mesh) -> Iterator[Hit]:
    for cluster, detection in detecting(mesh):
        at = detection["max_ejection_percent"]
        hosts = len(cluster.endpoints)
        if hosts == 0 or detection["always_eject_one_host"].flag():
            continue
        if 100 / hosts > at.number(10):
            yield Hit(at, cluster.of, f"{at.number(10):g} % of {hosts} hosts is less than one")


@THEME.check(
    "ejects-last-unit",
    Severity.WARNING,
    "outlier detection may eject every unit",
    "With max_ejection_percent 100 the last unit goes too, and with a panic threshold of 0 "
    "clients get 503 (no healthy upstream) for base_ejection_time, although a suspicious answer "
    "may be better than none.",
    "outlier_detection: {max_ejection_percent: 50}",
)
def ejects_last_unit(mesh: Mesh) -> Iterator[Hit]:
    for cluster, detection in detecting(mesh):
        at = detection["max_ejection_percent"]
        hosts = len(cluster.endpoints)
        if hosts and at.number(10) >= 100:
            yield Hit(at, cluster.of, f"{at.number(10):g} % of {hosts} hosts")


@THEME.check(
    "ejection-short",
    Severity.WARNING,
    "an ejection ends before it can be made lasting",
    "An ejection expires after base_ejection_time, whether the unit is well or not. Only the "
    "sidecar's health answer holds it out until it is verified, and that takes its evidence some "
    "seconds.",
    "outlier_detection: {base_ejection_time: 30s}",
)
def ejection_short(mesh: Mesh) -> Iterator[Hit]:
    for cluster, detection in detecting(mesh):
        at = detection["base_ejection_time"]
        seconds = at.seconds(30)
        capped = detection["max_ejection_time"]
        if capped and capped.seconds(300) < seconds:
            at, seconds = capped, capped.seconds(300)
        if seconds < 10:
            yield Hit(at, cluster.of, f"{seconds:g} s")


@THEME.check(
    "success-rate-between-units",
    Severity.INFO,
    "success-rate ejection compares units with one another",
    "It needs success_rate_minimum_hosts (5) hosts to do anything; among a few units it does "
    "nothing, among many it ejects the worst, well or not.",
    "outlier_detection: {enforcing_success_rate: 0}",
)
def success_rate_between_units(mesh: Mesh) -> Iterator[Hit]:
    for cluster, detection in detecting(mesh):
        at = detection["enforcing_success_rate"]
        least = detection["success_rate_minimum_hosts"].number(5)
        if at.number(100) > 0 and len(cluster.endpoints) >= least:
            yield Hit(at, cluster.of)
