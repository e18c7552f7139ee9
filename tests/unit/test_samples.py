"""Text beside evidence: off by default, masked, bounded, and gone after its time."""

from __future__ import annotations

import stat
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from extproc.cli.evidence import one
from extproc.config.load import ConfigError, parse
from extproc.config.stores import SamplesModel
from extproc.detect import Kind
from extproc.health import Evidence, Response
from extproc.health.stores.keeper import Keeper, KeeperSettings
from extproc.health.stores.memory import MemoryStore
from extproc.health.stores.sqlite import SqliteStore
from extproc.samples import make_quote
from extproc.sidecar import make_services
from tests.unit.health.records import verdict
from tests.unit.health.test_keeper import Watcher
from tests.unit.services import Heard

TEXT = "after that Margaret Okonkwo went " + "round and " * 20
HOUR = 3600.0
REDACTED = SamplesModel(keep="redacted", retention_hours=1)


class Clock:
    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self) -> float:
        return self.now


def sample(number: int, clock: Callable[[], float]) -> Evidence:
    return make_quote(REDACTED, None)(verdict(number, at=clock()), TEXT)


def test_by_default_there_is_a_hash_and_no_text() -> None:
    record = make_quote(SamplesModel(), None)(verdict(1), TEXT)
    assert record.sample == ""
    assert len(record.text_hash) == 32
    assert not any(word in str(record.as_dict()) for word in ("went", "Okonkwo", "round"))


def test_equal_texts_have_equal_hashes_under_one_key_alone(tmp_path: Path) -> None:
    one = make_quote(SamplesModel(), tmp_path / "s.db")
    again = make_quote(SamplesModel(), tmp_path / "s.db")  # after a restart
    other = make_quote(SamplesModel(), tmp_path / "t.db")
    assert one(verdict(1), TEXT).text_hash == again(verdict(2), TEXT).text_hash
    assert one(verdict(1), TEXT).text_hash != one(verdict(1), TEXT + "!").text_hash
    assert one(verdict(1), TEXT).text_hash != other(verdict(1), TEXT).text_hash
    key = tmp_path / "s.db.key"
    assert stat.S_IMODE(key.stat().st_mode) == 0o600
    assert len(key.read_bytes()) == 32


def test_a_key_that_cannot_be_used_is_said_and_replaced(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "s.db.key").write_bytes(b"short")
    assert make_quote(SamplesModel(), tmp_path / "s.db")(verdict(1), TEXT).text_hash
    assert "holds 5 bytes" in caplog.text
    assert (tmp_path / "s.db.key").read_bytes() == b"short"


def test_nothing_means_nothing() -> None:
    record = verdict(1)
    assert make_quote(SamplesModel(keep="nothing"), None)(record, TEXT) is record


def test_a_sample_is_masked_bounded_and_dated() -> None:
    record = make_quote(REDACTED.model_copy(update={"max_bytes": 64}), None)(verdict(1), TEXT)
    assert "Okonkwo" not in record.sample
    assert record.sample.endswith("and ")
    assert len(record.sample.encode()) <= 64
    assert record.sample_until == record.at + HOUR
    assert record.text_hash


def test_a_response_without_text_has_neither() -> None:
    record = make_quote(REDACTED, None)(verdict(1), "")
    assert (record.sample, record.text_hash) == ("", "")


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("{keep: everything}", "samples.keep"),
        ("{max_bytes: 1}", "samples.max_bytes"),
        ("{retention_hours: 0}", "samples.retention_hours"),
        ("{key_file: /no/such/file}", "samples.key_file"),
        ("{key_file: /dev/null}", "less than 16 bytes"),
    ],
)
def test_settings_that_cannot_be_are_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        parse(f"samples: {text}", "x.yaml")


def contents(path: Path) -> bytes:
    return b"".join(file.read_bytes() for file in sorted(path.parent.glob(path.name + "*")))


async def test_in_the_file_a_sample_is_gone_to_the_last_byte_after_its_time(
    tmp_path: Path,
) -> None:
    clock, path = Clock(), tmp_path / "s.db"
    store = SqliteStore(path, clock=clock)
    await store.open()
    record = sample(1, clock)
    await store.save({"version": 1}, [record, verdict(2, at=clock())])
    assert await store.evidence("1-test") == record
    assert b"round and" in contents(path)
    clock.now += HOUR - 1
    await store.save({"version": 1}, [])
    assert b"round and" in contents(path)
    clock.now += 1
    found = await store.evidence("1-test")  # not even until the next save
    assert found is not None
    assert found.sample == ""
    await store.save({"version": 1}, [])
    assert b"round and" not in contents(path)
    assert b"went" not in contents(path)
    assert await store.evidence("1-test") == found
    await store.close()


async def test_what_lapsed_while_the_sidecar_was_down_is_gone_at_its_start(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "s.db"
    store = SqliteStore(path, clock=clock)
    await store.open()
    await store.save(None, [sample(1, clock)])
    await store.close()
    clock.now += 2 * HOUR
    again = SqliteStore(path, clock=clock)
    await again.open()
    assert b"round and" not in contents(path)
    await again.close()


async def test_a_clock_set_back_keeps_no_sample_longer(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "s.db"
    store = SqliteStore(path, clock=clock)
    await store.open()
    await store.save(None, [sample(1, clock)])
    clock.now -= 24 * HOUR
    await store.save({"version": 1}, [])
    assert b"round and" not in contents(path)
    assert await store.evidence("1-test") is not None
    await store.close()


async def test_a_sample_goes_with_its_record(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "s.db"
    store = SqliteStore(path, max_records=1, clock=clock)
    await store.open()
    await store.save(None, [sample(1, clock)])
    await store.save(None, [verdict(2, at=clock())])
    assert await store.evidence("1-test") is None
    clock.now += HOUR
    await store.save({"version": 1}, [])
    assert b"round and" not in contents(path)
    await store.close()


async def test_in_memory_a_sample_ends_with_its_time() -> None:
    clock = Clock()
    store = MemoryStore(clock=clock)
    await store.save(None, [sample(1, clock)])
    assert (await store.recent())[0].sample
    clock.now += HOUR
    assert not (await store.recent())[0].sample
    found = await store.evidence("1-test")
    assert found is not None
    assert not found.sample
    assert found.text_hash


async def test_a_store_that_fails_keeps_no_sample_waiting_beyond_its_time() -> None:
    clock = Clock()
    keeper = Keeper(MemoryStore(), dict, Watcher(), KeeperSettings(), clock)
    keeper.evidence(sample(1, clock))
    found = await keeper.find("1-test")
    assert found is not None
    assert found.sample
    clock.now += HOUR
    found = await keeper.find("1-test")
    assert found is not None
    assert not found.sample


def test_the_record_of_a_file_without_samples_is_read() -> None:
    content: dict[str, Any] = verdict(1).as_dict()
    for name in ("sample", "sample_until", "text_hash"):
        del content[name]
    assert Evidence.from_dict(content) == verdict(1)


def test_people_are_told_without_the_sample_and_the_store_gets_it() -> None:
    store, people = Heard(), Heard()
    services = make_services(parse("units: [{id: a, release: r1}]", "x.yaml"))
    services.sinks.append(store)
    services.heralds.append(people)
    services.quote = make_quote(REDACTED, None)
    response = Response("a", "r1", "short", "h", Kind.CORRUPT, (), "id", 1.0)
    services.record(response, TEXT)
    services.record(response._replace(kind=Kind.CLEAN), "")
    assert store.records[0].sample
    assert store.records[0].text_hash == people.records[0].text_hash
    assert not any(record.sample for record in people.records)
    assert not any(record.sample for record in store.records[1:])


def test_the_command_shows_a_sample_as_it_is_and_until_when() -> None:
    console = Console(file=StringIO(), width=400)
    record = replace(sample(1, Clock()), sample="round [bold]and <1 latin 7>")
    console.print(one(record.as_dict()))
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "round [bold]and <1 latin 7>" in text
    assert "sample_until" in text
    assert str(record.sample_until) not in text, "a time is shown as one"
