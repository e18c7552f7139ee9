"""Certificates on the disk: when they are read, and what is said of those that cannot be used."""

from __future__ import annotations

import logging
import re
import resource
import ssl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)

import extproc.tls
from extproc.tls import Certificates, Pem, Tls
from tests.unit.tls.authority import HOST, Files

CA = trustme.CA()


@pytest.fixture
def files(tmp_path: Path) -> Files:
    made = Files(tmp_path, client_ca=True)
    made.write(CA, CA)
    return made


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def shown(files: Files, told: list[str]) -> Certificates:
    return Certificates(files.tls, "grpc.tls", told.append)


def other_key() -> bytes:
    return CA.issue_cert(HOST).private_key_pem.bytes()


def rsa_key() -> bytes:
    return CA.issue_cert(HOST, key_type=trustme.KeyType.RSA).private_key_pem.bytes()


def locked_key() -> bytes:
    key = load_pem_private_key(other_key(), None)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"pw"))


BROKEN = {
    "the key of another": ("tls.key", other_key(), "tls.key is not the key of .*tls.crt; write"),
    "a key of another kind": ("tls.key", rsa_key(), "tls.key is not the key of .*tls.crt; write"),
    "a key with a passphrase": ("tls.key", locked_key(), "one with a passphrase; write one"),
    "half a key": ("tls.key", other_key()[:60], "tls.key holds no private key in PEM"),
    "no certificate": ("tls.crt", b"", "tls.crt holds no certificate in PEM"),
    "half a certificate": ("tls.crt", CA.cert_pem.bytes()[:99], "tls.crt holds no certificate"),
    "no CA": ("ca.crt", b"", "ca.crt holds no certificate in PEM"),
    "a file that is gone": ("tls.crt", None, "tls.crt cannot be read: No such file"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_files_that_cannot_be_used_change_nothing_and_are_said_once(
    shown: Certificates,
    files: Files,
    told: list[str],
    case: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    name, content, said = BROKEN[case]
    before = shown.now
    if content is None:
        files.tls.cert_file.unlink()
    else:
        files.put({name: content})
    for _ in range(3):
        assert not shown.renew()
    assert shown.now is before
    assert told == ["refused"]
    (record,) = caplog.records
    assert record.levelno == logging.ERROR
    assert record.getMessage().startswith("grpc.tls: ")
    assert re.search(said, record.getMessage())
    for line in (content or b"").splitlines():
        assert line.decode() not in caplog.text
    files.write(CA, CA)
    assert shown.renew()
    assert told == ["refused", "ok"]


@pytest.mark.parametrize("case", BROKEN)
def test_files_that_cannot_be_used_at_the_start_are_said(files: Files, case: str) -> None:
    name, content, said = BROKEN[case]
    if content is None:
        files.tls.cert_file.unlink()
    else:
        files.put({name: content})
    with pytest.raises(OSError, match=f"^grpc.tls: .*{said}"):
        Certificates(files.tls, "grpc.tls", print)


def test_files_that_stay_are_read_once(
    shown: Certificates, files: Files, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("extproc.tls.load", None)
    assert not shown.renew()
    monkeypatch.undo()
    files.write(CA, CA)
    assert shown.renew()
    assert shown.now.cert == files.tls.cert_file.read_bytes()
    assert shown.now.key == files.tls.key_file.read_bytes()
    monkeypatch.setattr("extproc.tls.load", None)
    assert not shown.renew()
    assert told == ["ok"]


def test_a_pair_that_is_replaced_while_it_is_read_is_read_again(
    shown: Certificates, files: Files, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    files.write(CA, CA)
    load, times = extproc.tls.load, 0

    def slow(tls: Tls) -> Pem:
        nonlocal times
        times += 1
        if times == 1:  # the certificate of before, the key of after
            made = CA.issue_cert(HOST)
            files.put({"tls.key": made.private_key_pem.bytes()})
            try:
                return load(tls)
            finally:
                files.put({"tls.crt": made.cert_chain_pems[0].bytes()})
        return load(tls)

    monkeypatch.setattr("extproc.tls.load", slow)
    assert shown.renew()
    assert told == ["ok"]
    assert shown.now.cert == files.tls.cert_file.read_bytes()


def test_a_pair_that_is_replaced_without_end_is_left_to_the_next_handshake(
    shown: Certificates, files: Files, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    load, before = extproc.tls.load, shown.now

    def restless(tls: Tls) -> Pem:
        found = load(tls)
        files.write(CA, CA)
        return found

    files.write(CA, CA)
    monkeypatch.setattr("extproc.tls.load", restless)
    assert not shown.renew()
    assert shown.now is before
    assert told == ["refused"]
    monkeypatch.undo()
    assert shown.renew()


@contextmanager
def without_descriptors() -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_replacement_that_could_not_be_opened_is_tried_again(
    shown: Certificates, files: Files, told: list[str]
) -> None:
    files.write(CA, CA)
    with without_descriptors():
        assert not shown.renew()
        assert not shown.renew()
    assert told == ["refused"]
    assert shown.renew()
    assert told == ["refused", "ok"]


def test_the_key_is_in_no_representation(shown: Certificates) -> None:
    assert "PRIVATE KEY" not in repr(shown.now)


def test_a_client_ca_is_demanded_where_one_is_named(shown: Certificates, files: Files) -> None:
    assert shown.now.context.verify_mode is ssl.CERT_REQUIRED
    none = Certificates(Tls(files.tls.cert_file, files.tls.key_file), "admin.tls", print)
    assert none.now.context.verify_mode is ssl.CERT_NONE
