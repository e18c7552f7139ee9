"""Envoy's matchers of strings and headers, evaluated on a header set."""

from __future__ import annotations

import re
from collections.abc import Mapping

from extproc.mesh.audit.node import Node
from extproc.mesh.audit.world import MARKER

MARKED = {":status": "200", MARKER: "corrupt"}
"""Headers of an answer that is to be retried."""

HEALTHY = {":status": "200", "content-type": "application/json", "x-semantic-state": "pass"}
"""Headers of one that is not."""


def matches_string(matcher: Node, text: str) -> bool:
    """``envoy.type.matcher.v3.StringMatcher``."""
    fold = matcher["ignore_case"].flag()

    def case(value: str) -> str:
        return value.lower() if fold else value

    have = case(text)
    if matcher["exact"]:
        return have == case(matcher["exact"].text())
    if matcher["prefix"]:
        return have.startswith(case(matcher["prefix"].text()))
    if matcher["suffix"]:
        return have.endswith(case(matcher["suffix"].text()))
    if matcher["contains"]:
        return case(matcher["contains"].text()) in have
    if matcher["safe_regex"]:
        return matches_regex(matcher["safe_regex"], text)
    return False


def matches_regex(matcher: Node, text: str) -> bool:
    """``RegexMatcher``: of the whole string. What Python cannot read counts as no match."""
    try:
        return re.fullmatch(matcher["regex"].text(), text) is not None
    except re.error:
        return False


def matches_header(matcher: Node, headers: Mapping[str, str]) -> bool:
    """``envoy.config.route.v3.HeaderMatcher``, old spellings included."""
    found = headers.get(matcher["name"].text().lower())
    inverted = matcher["invert_match"].flag()
    if found is None and matcher["treat_missing_header_as_empty"].flag():
        found = ""
    if matcher["present_match"]:
        return ((found is not None) == matcher["present_match"].flag()) != inverted
    if found is None:
        return False  # Envoy: a rule on a value never matches without the header, inverted or not
    return _value(matcher, found) != inverted


def _value(matcher: Node, found: str) -> bool:
    if matcher["string_match"]:
        return matches_string(matcher["string_match"], found)
    if matcher["exact_match"]:
        return found == matcher["exact_match"].text()
    if matcher["safe_regex_match"]:
        return matches_regex(matcher["safe_regex_match"], found)
    if matcher["prefix_match"]:
        return found.startswith(matcher["prefix_match"].text())
    if matcher["suffix_match"]:
        return found.endswith(matcher["suffix_match"].text())
    if matcher["contains_match"]:
        return matcher["contains_match"].text() in found
    if matcher["range_match"]:
        bounds = matcher["range_match"]
        return found.isdecimal() and (
            bounds["start"].number(0) <= int(found) < bounds["end"].number(0)
        )
    return True  # the header's presence is enough


def matches_response(predicate: Node, headers: Mapping[str, str]) -> bool:
    """``MatchPredicate`` on response headers."""
    if predicate["or_match"]:
        rules = predicate.at("or_match", "rules").items()
        return any(matches_response(rule, headers) for rule in rules)
    if predicate["and_match"]:
        rules = predicate.at("and_match", "rules").items()
        return all(matches_response(rule, headers) for rule in rules)
    if predicate["not_match"]:
        return not matches_response(predicate["not_match"], headers)
    if predicate["any_match"]:
        return predicate["any_match"].flag()
    if predicate["http_response_headers_match"]:
        matchers = predicate.at("http_response_headers_match", "headers").items()
        return all(matches_header(matcher, headers) for matcher in matchers)
    return False
