"""What is judged of a response as a whole: emptiness, structure, integrity, policy."""

from __future__ import annotations

import json

import pytest

from extproc.detect import (
    Finding,
    Inspector,
    Kind,
    Policy,
    Weight,
    entries,
    learn,
    make_catalogue,
)
from extproc.detect.catalogue import ALL, reason_names
from extproc.detect.detector import Setting
from extproc.detect.thresholds import paths, with_thresholds
from extproc.wire import (
    Cause,
    Channel,
    Event,
    Failure,
    Finish,
    Layer,
    Malformed,
    Status,
    Terminator,
    Text,
    TooLarge,
    ToolCall,
    Unterminated,
    Usage,
)
from tests.unit.detect.say import PROSE, asking, events, names, streamed, whole

SCHEMA = {"type": "object", "properties": {"age": {"type": "integer"}}, "required": ["age"]}
FORMAT = {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}
TOOLS = [{"type": "function", "function": {"name": "write_file", "parameters": {}}}]


def test_tokens_without_text_are_corrupt() -> None:
    assert events([Finish(0, "length"), Usage(3, 16)]).kind is Kind.CORRUPT
    assert streamed([""] * 16, "length").kind is Kind.CORRUPT
    assert "emptiness.empty_tail" in names(streamed([*PROSE.split(), *[""] * 30], "length"))


@pytest.mark.parametrize(
    "happened",
    [
        [Finish(0, "stop"), Usage(3, 1)],
        [Finish(0, "length"), Usage(3, 1)],
        [Finish(0, "content_filter"), Usage(3, 40)],
        [Finish(0, "stop"), Usage(3, 400, 399)],
        [ToolCall(0, 0, "now"), Finish(0, "tool_calls"), Usage(3, 20)],
        [Text(0, Channel.REASONING, PROSE), Finish(0, "length"), Usage(3, 90)],
        [Text(0, Channel.REFUSAL, "I cannot help with that."), Finish(0, "stop")],
    ],
)
def test_answers_that_are_rightly_empty_are_clean(happened: list[Event]) -> None:
    assert events(happened).kind is Kind.CLEAN


def test_blank_space_without_end_is_corrupt() -> None:
    assert streamed('{\n "age":' + "\n \n  " * 200, "length").kind is Kind.CORRUPT
    assert whole("\u200b" * 150, "length").kind is Kind.CORRUPT
    assert whole("\u00a0" * 120).kind is Kind.CORRUPT
    assert whole("\t" * 8 + "value\n").kind is Kind.CLEAN
    assert whole(" " * 60 + "x").kind is not Kind.CORRUPT


def call(arguments: str, ending: str = "tool_calls", name: str = "write_file") -> list[Event]:
    return [
        ToolCall(0, 0, name),
        Text(0, Channel.TOOL_ARGUMENTS, arguments),
        Finish(0, ending),
    ]


REQUEST = asking("Write it down.", tools=TOOLS)


@pytest.mark.parametrize(
    "happened",
    [
        call('{"path": "/srv/notes.md", "content": "'),
        call("!" * 200),
        call("{}", name="assistant<|channel|>analysis"),
        call("{}", name="write_file\nwrite_file"),
        call("{}", name="write_filewrite_file"),
        [Text(0, Channel.TOOL_ARGUMENTS, "{}"), Finish(0, "tool_calls")],
        [Finish(0, "tool_calls"), Usage(3, 5)],
    ],
)
def test_broken_tool_calls_are_corrupt(happened: list[Event]) -> None:
    assert events(happened, REQUEST).kind is Kind.CORRUPT


@pytest.mark.parametrize(
    "happened",
    [
        call('{"path": "/a", "content": "b"}'),
        call(""),
        call('{"path": "/srv/no', "length"),
        call('"{\\"path\\": 1}"'),
        [Text(0, Channel.CONTENT, "On it."), *call("{}")],
    ],
)
def test_calls_as_engines_write_them_are_clean(happened: list[Event]) -> None:
    assert events(happened, REQUEST).kind is Kind.CLEAN


def test_an_undeclared_name_is_a_hint() -> None:
    assert events(call("{}", name="web_search"), REQUEST).kind is Kind.SUSPECT
    assert events(call("{}", name="web_search")).kind is Kind.CLEAN


def test_json_that_is_none_is_corrupt_when_it_was_asked_for() -> None:
    schema = asking("Return the record.", response_format=FORMAT)
    plain = asking("Return JSON.", response_format={"type": "json_object"})
    assert whole('{"age": 4, "na', request=schema).kind is Kind.CORRUPT
    assert whole(PROSE, request=schema).kind is Kind.CORRUPT
    assert whole('{"age: !!', request=plain).kind is Kind.CORRUPT
    assert whole('{"age": 4, "na', "length", request=schema).kind is Kind.CLEAN
    assert whole('{"age": 4}', request=schema).kind is Kind.CLEAN
    assert whole('```json\n{"age": 4}\n```', request=schema).kind is Kind.CLEAN
    assert whole('{"age": "four"}', request=schema).kind is Kind.SUSPECT
    assert whole("{}\n", request=plain).kind is Kind.CLEAN
    assert whole('{"age": 4, "na').kind is Kind.CLEAN


def test_a_schema_that_cannot_be_used_judges_nothing() -> None:
    for schema in ({"type": 7}, {"$ref": "http://localhost/x"}, {"pattern": "(a+)+$"}):
        broken = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
        request = asking("x", response_format=broken)
        assert whole(json.dumps(PROSE), request=request).kind is Kind.CLEAN


@pytest.mark.parametrize(
    ("happened", "kind"),
    [
        ([Text(0, Channel.CONTENT, "a", 1), Failure("GatewayTimeout")], Kind.CORRUPT),
        ([Failure("invalid_request_error")], Kind.SUSPECT),
        ([Status(500), Failure("server_error", Cause.NON_FINITE)], Kind.CORRUPT),
        ([Status(429), Failure("rate_limit")], Kind.UNCHECKED),
        ([Text(0, Channel.CONTENT, "a", 1), Unterminated("[DONE]")], Kind.CORRUPT),
        ([Finish(0, "stop"), Unterminated("[DONE]")], Kind.SUSPECT),
        ([Terminator()], Kind.CORRUPT),
        ([Malformed(Layer.JSON, "character 7")], Kind.CORRUPT),
        ([Malformed(Layer.UTF8, "byte 7")], Kind.CORRUPT),
        ([Malformed(Layer.ENCODING, "gzip")], Kind.UNCHECKED),
        ([TooLarge("body", 4)], Kind.UNCHECKED),
        ([Text(0, Channel.CONTENT, "a", 1), Finish(0, "stop"), Terminator()], Kind.CLEAN),
        ([], Kind.UNCHECKED),
    ],
)
def test_how_a_response_ended_decides(happened: list[Event], kind: Kind) -> None:
    assert events(happened).kind is kind


def test_corrupt_never_goes_back_and_names_its_first_token() -> None:
    inspector = Inspector()
    for _ in range(20):
        inspector.feed([Text(0, Channel.CONTENT, "!", 1)])
    assert inspector.corrupt
    assert not inspector.ordinary
    inspector.feed([Text(0, Channel.CONTENT, PROSE, 1), Finish(0, "stop")])
    verdict = inspector.finish()
    assert verdict.kind is Kind.CORRUPT
    assert verdict.first_token is not None
    assert verdict.first_token <= 16


def test_an_ordinary_beginning_is_known_after_two_words() -> None:
    inspector = Inspector()
    inspector.feed([Text(0, Channel.CONTENT, "The", 1)])
    assert not inspector.ordinary
    inspector.feed([Text(0, Channel.CONTENT, " vote", 1)])
    assert inspector.ordinary


def test_a_policy_turns_detectors_off_and_proofs_into_hints() -> None:
    off = Policy(off=frozenset({"repetition", "deltas", "recurrence"}))
    assert whole("!" * 300, "length", policy=off).kind is Kind.CLEAN
    hints = Policy(hints=frozenset({"repetition.unfinished"}))
    assert whole("!" * 300, "length", policy=hints).kind is Kind.SUSPECT


@pytest.mark.parametrize(
    ("policy", "complaint"),
    [
        (Policy(off=frozenset({"typo"})), "no such detector: typo"),
        (Policy(hints=frozenset({"typo.x"})), "no such detector: typo"),
        (Policy(ordinary=frozenset({"repetition.typo"})), "repetition has no reason typo"),
        (Policy(thresholds={"repetition.mid.typo": 1}), r"repetition has no threshold mid\.typo"),
        (Policy(thresholds={"repetition": 1}), r"no threshold \(unnamed\)"),
        (Policy(thresholds={"typo.x": 1}), "no such detector: typo"),
    ],
)
def test_a_policy_that_names_what_is_not_there_is_refused(policy: Policy, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        make_catalogue(policy)


def test_a_baseline_learns_what_is_ordinary_for_a_model() -> None:
    finding = Finding("structure", "schema", 1, 1, Weight.HINT)
    assert learn([[finding]] * 5 + [[]] * 45).ordinary == {"structure.schema"}
    assert not learn([[finding]] * 2 + [[]] * 48).ordinary
    assert not learn([[finding._replace(weight=Weight.NOTE)]] * 50).ordinary
    policy = Policy(ordinary=frozenset({"repetition.unfinished"}))
    assert whole("no " * 40, "length", policy=policy).kind is Kind.UNCHECKED


def test_a_policy_moves_thresholds() -> None:
    text = "The vote was close." + " " * 200
    alone = frozenset(ALL) - {"whitespace"}
    assert whole(text, "length", policy=Policy(off=alone)).kind is Kind.CORRUPT
    policy = Policy(off=alone, thresholds={"whitespace.end": 300})
    assert whole(text, "length", policy=policy).kind is Kind.CLEAN
    assert whole(text + " " * 101, "length", policy=policy).kind is Kind.CORRUPT


@pytest.mark.parametrize("name", sorted(ALL))
def test_every_threshold_of_every_detector_can_be_moved(name: str) -> None:
    kind = ALL[name]
    for path, value in paths(kind).items():
        changed = with_thresholds(kind, {path: value + 7})
        assert paths(changed) == {**paths(kind), path: value + 7}
        assert type(changed.create(Setting())).__name__ == kind.__name__


def test_of_two_policies_the_one_above_sets_the_threshold() -> None:
    model = Policy(off=frozenset({"salad"}), thresholds={"whitespace.mid": 1, "whitespace.end": 2})
    unit = Policy(hints=frozenset({"stutter"}), thresholds={"whitespace.mid": 3})
    both = model.under(unit)
    assert both.thresholds == {"whitespace.mid": 3, "whitespace.end": 2}
    assert both.off == {"salad"}
    assert both.hints == {"stutter"}


def test_two_hints_of_garble_make_a_proof() -> None:
    from extproc.detect.combination import two_hints_fit

    one = Finding("stutter", "doubled", 3, 5, Weight.HINT)
    other = Finding("salad", "window", 2, 3, Weight.HINT)
    assert two_hints_fit([one, one]) is None
    found = two_hints_fit([one, other])
    assert found is not None
    assert found.weight is Weight.PROOF


def test_every_detector_is_listed_with_reasons_and_thresholds() -> None:
    listed = entries()
    assert len({entry.name for entry in listed}) == len(listed) >= 17
    for entry in listed:
        assert entry.about, entry.name
        assert reason_names(entry), entry.name
        assert "Source" in entry.reasons, entry.name


def test_the_catalogue_names_every_reason_that_the_code_gives() -> None:
    import inspect
    import re

    for entry in entries():
        source = inspect.getsource(ALL[entry.name])
        given = set(re.findall(r'_(?:found|once|finding|judge)\(\s*"([a-z_0-9]+)"', source))
        given |= set(re.findall(r'Finding\(\s*self\.name,\s*"([a-z_0-9]+)"', source))
        assert given <= set(reason_names(entry)), entry.name


def test_requests_that_ask_for_garble_make_it_a_hint() -> None:
    garbled = " Oval condemn txawv faoi wid Waik razor defnydd flere Abi fal Hmm spouse"
    garbled += " Prefeitura antwoorden primero notoriously strcat frecuentes blandt nossos"
    assert whole(garbled, "length").kind is Kind.CORRUPT
    assert whole(garbled, "length", asking("x", temperature=2.0)).kind is Kind.SUSPECT
    assert whole("!" * 99, "length", asking("x", ignore_eos=True)).kind is Kind.SUSPECT


def test_lone_surrogates_are_text_like_any_other() -> None:
    assert whole(PROSE + "\ud800\udfff" * 3 + PROSE).kind is not Kind.CORRUPT


def test_a_choice_that_ended_without_one_token_is_empty() -> None:
    happened: list[Event] = [Finish(0, "stop"), Usage(24, 0)]
    assert "emptiness.no_tokens" in names(events(happened))
    assert events([Text(0, Channel.CONTENT, "Hi"), *happened]).kind is Kind.CLEAN
    assert events([Finish(0, "length"), Usage(24, 0)]).kind is Kind.CLEAN


def test_brackets_and_blanks_for_all_the_tokens_are_empty() -> None:
    blank = Text(0, Channel.CONTENT, "{ \n\n                    }")
    assert "emptiness.bare" in names(events([blank, Finish(0, "stop"), Usage(46, 53)]))
    plain = Text(0, Channel.CONTENT, "{\n}")
    assert events([plain, Finish(0, "stop"), Usage(46, 53, 50)]).kind is Kind.CLEAN


def test_half_an_empty_page_up_to_the_limit_is_corrupt() -> None:
    assert "whitespace.tail" in names(whole(PROSE + "\n" * 30, "length"))
    assert whole(PROSE + "\n" * 30, "stop").kind is not Kind.CORRUPT
    assert whole(PROSE + "\n" * 6, "length").kind is Kind.CLEAN
