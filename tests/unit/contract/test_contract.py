"""The contract is what protos/ says, and the two JSON forms of a record are one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from google.protobuf import descriptor_pb2, json_format
from hypothesis import given
from hypothesis import strategies as st

from extproc.contract import (
    EvidenceMessage,
    UnitStateMessage,
    VerdictMessage,
    evidence_from_message,
    evidence_message,
    unit_state_from_message,
    unit_state_message,
    verdict_from_message,
    verdict_message,
)
from extproc.contract.semantic.v1 import evidence_pb2, unit_state_pb2, verdict_pb2
from extproc.detect import Finding, Kind, Verdict, Weight
from extproc.health.evidence import Evidence, Subject
from extproc.health.shared import MAX_EPOCH, SharedState, supersedes
from extproc.health.states import State

ROOT = Path(__file__).resolve().parents[3]

texts = st.text(max_size=20)
utf8 = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
numbers = st.floats(allow_nan=False)


def findings(text: st.SearchStrategy[str]) -> st.SearchStrategy[Finding]:
    return st.builds(Finding, text, text, numbers, numbers, st.sampled_from(Weight), text)


def records(text: st.SearchStrategy[str]) -> st.SearchStrategy[Evidence]:
    return st.builds(
        Evidence,
        id=text,
        subject=st.sampled_from(Subject),
        at=numbers,
        unit=text,
        release=text,
        context=text,
        host=text,
        verdict=st.sampled_from(Kind),
        findings=st.lists(findings(text), max_size=3).map(tuple),
        request_id=text,
        traceparent=text,
        attempt=st.integers(0, 99),
        before=st.none() | st.sampled_from(State),
        after=st.none() | st.sampled_from(State),
        cause=text,
        e_value=numbers,
        sample=text,
        sample_until=numbers,
        text_hash=text,
    )


shared = st.builds(
    SharedState,
    utf8.filter(bool),
    utf8.filter(bool),
    st.sampled_from(State),
    st.integers(0, MAX_EPOCH),
    utf8,
    utf8,
    utf8,
    st.floats(allow_nan=False, allow_infinity=False),
)


def test_the_committed_classes_are_those_of_the_files(tmp_path: Path) -> None:
    out = tmp_path / "set"
    files = sorted(
        str(path.relative_to(ROOT / "protos")) for path in ROOT.glob("protos/**/*.proto")
    )
    command = [sys.executable, "-m", "grpc_tools.protoc", "-Iprotos", f"--descriptor_set_out={out}"]
    subprocess.run([*command, *files], cwd=ROOT, check=True)
    made = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
    committed = {}
    for module in (evidence_pb2, unit_state_pb2, verdict_pb2):
        description = descriptor_pb2.FileDescriptorProto()
        module.DESCRIPTOR.CopyToProto(description)
        committed[description.name] = description
    for file in made.file:
        # json_name is the compiler's addition, and follows from the name.
        for message in file.message_type:
            for field in message.field:
                field.ClearField("json_name")
    for description in committed.values():
        for message in description.message_type:
            for field in message.field:
                field.ClearField("json_name")
    assert committed == {file.name: file for file in made.file}, "run make protos"


def test_every_field_of_a_record_is_in_its_message() -> None:
    assert list(Evidence.__dataclass_fields__) == [
        f.name for f in EvidenceMessage.DESCRIPTOR.fields
    ]
    assert list(Finding._fields) == [f.name for f in verdict_pb2.Finding.DESCRIPTOR.fields]
    assert list(SharedState._fields) == [f.name for f in UnitStateMessage.DESCRIPTOR.fields]
    assert list(Verdict.__dataclass_fields__) == [f.name for f in VerdictMessage.DESCRIPTOR.fields]


@given(records(utf8))
def test_the_json_of_a_record_and_of_its_message_are_one(record: Evidence) -> None:
    message = evidence_message(record)
    json = json_format.MessageToDict(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    # protobuf's mapping reads null as absent, and writes nothing for it
    ours = {name: value for name, value in record.as_dict().items() if value is not None}
    assert json == ours
    assert json_format.ParseDict(record.as_dict(), EvidenceMessage()) == message


@given(records(utf8))
def test_a_record_survives_both_forms(record: Evidence) -> None:
    wire = EvidenceMessage.FromString(evidence_message(record).SerializeToString())
    assert evidence_from_message(wire) == record
    assert Evidence.from_dict(record.as_dict()) == record


@given(records(texts))
def test_any_text_makes_a_message(record: Evidence) -> None:
    assert evidence_message(record).SerializeToString()


@given(shared)
def test_a_state_survives_both_forms(state: SharedState) -> None:
    wire = UnitStateMessage.FromString(unit_state_message(state).SerializeToString())
    assert unit_state_from_message(wire) == state
    assert SharedState.from_dict(state.as_dict()) == state
    json = json_format.MessageToDict(
        wire, preserving_proto_field_name=True, always_print_fields_with_no_presence=True
    )
    assert json == state.as_dict()


@given(
    st.builds(
        Verdict,
        st.sampled_from(Kind),
        st.lists(findings(utf8), max_size=3).map(tuple),
        st.none() | st.integers(0, 9999),
    )
)
def test_a_verdict_survives(verdict: Verdict) -> None:
    wire = VerdictMessage.FromString(verdict_message(verdict).SerializeToString())
    assert verdict_from_message(wire) == verdict


def test_a_word_of_tomorrow_is_refused_not_guessed() -> None:
    with pytest.raises(ValueError, match="hopeless"):
        verdict_from_message(VerdictMessage(kind="hopeless"))
    with pytest.raises(ValueError, match="banned"):
        unit_state_from_message(UnitStateMessage(unit="u", context="*", state="banned"))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(
    json_values
    | st.fixed_dictionaries(dict.fromkeys(SharedState._fields, json_values))  # right names only
)
def test_any_json_is_a_shared_state_or_a_value_error(content: object) -> None:
    try:
        state = SharedState.from_dict(content)
    except ValueError:
        return
    assert SharedState.from_dict(state.as_dict()).key == state.key


@given(st.permutations(range(6)), st.lists(shared, min_size=6, max_size=6))
def test_the_order_of_arrival_does_not_matter(order: list[int], states: list[SharedState]) -> None:
    def settled(arriving: list[SharedState]) -> tuple[int, State]:
        held: SharedState | None = None
        for state in arriving:
            if supersedes(state, held):
                held = state
        assert held is not None
        return held.epoch, held.state

    assert settled(states) == settled([states[at] for at in order])
