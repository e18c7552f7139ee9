"""What of a corrupt response's text goes into its evidence: a hash, a masked end, or nothing."""

from __future__ import annotations

import hashlib
import logging
import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import stop_words

from extproc.config.stores import SamplesModel
from extproc.health import Evidence
from extproc.health.redaction import redacted

log = logging.getLogger(__name__)

KEY_BYTES = 32

Quote = Callable[[Evidence, str], Evidence]
"""Adds to a record what may be kept of the text that was judged."""


def make_quote(settings: SamplesModel, store: Path | None) -> Quote:
    """What ``settings`` want. ``store``: the file beside which the key lives; None: the key lives
    as long as the process."""
    if settings.keep == "nothing":
        return lambda record, text: record
    key = _key(settings.key_file, store)

    def hashed(record: Evidence, text: str) -> Evidence:
        if not text:
            return record
        data = text.encode("utf-8", "surrogatepass")
        return replace(record, text_hash=hashlib.blake2b(data, digest_size=16, key=key).hexdigest())

    if settings.keep == "hash":
        return hashed
    common, life = common_words(), settings.retention_hours * 3600.0

    def quoted(record: Evidence, text: str) -> Evidence:
        sample = redacted(text, common, settings.max_bytes)
        if not sample:
            return hashed(record, text)
        return replace(hashed(record, text), sample=sample, sample_until=record.at + life)

    return quoted


def common_words() -> frozenset[str]:
    """Words that say little by themselves, of all languages that the library knows."""
    return frozenset(
        word.lower()
        for language in stop_words.AVAILABLE_LANGUAGES
        for word in stop_words.get_stop_words(language)
        if word.isalpha()
    )


def _key(given: Path | None, store: Path | None) -> bytes:
    if given is not None:
        return given.read_bytes().strip()[:64]
    if store is None:
        return os.urandom(KEY_BYTES)
    path = store.with_name(store.name + ".key")
    try:
        with suppress(FileExistsError):
            fresh = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(fresh, "wb") as file:
                file.write(os.urandom(KEY_BYTES))
        key = path.read_bytes()
        if len(key) != KEY_BYTES:
            raise OSError(0, f"holds {len(key)} bytes, not {KEY_BYTES}")
    except OSError as error:
        log.warning(
            "the key of text hashes %s cannot be used (%s): hashes are comparable within this "
            "process only. Mend or remove the file, or set samples.key_file",
            path,
            error.strerror,
        )
        return os.urandom(KEY_BYTES)
    return key
