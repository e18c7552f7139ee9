"""What our servers show and demand over TLS, from PEM files that are replaced while they serve.

cert-manager and Istio replace a certificate every day or hour. Every handshake looks whether the
files have changed (one ``stat`` each) and, if so, reads them; open connections keep what they began
with. Files that cannot be used change nothing: what was served before stays, and is said once.
"""

from __future__ import annotations

import logging
import ssl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from extproc.files import Stamp, stamp

log = logging.getLogger(__name__)

READINGS = 3
"""Of files that change while they are read. The next handshake tries again."""

Stamps = list[Stamp | None]


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files. With ``client_ca_file`` clients must show a certificate that it signed (mTLS)."""

    cert_file: Path
    key_file: Path
    client_ca_file: Path | None = None


@dataclass(frozen=True, slots=True)
class Pem:
    """What the files held: a key that belongs to its certificate, and a CA if one is named."""

    cert: bytes
    key: bytes = field(repr=False)
    client_ca: bytes | None
    context: ssl.SSLContext
    """The same, for a server that speaks TLS by the standard library."""


class Certificates:
    """The files of ``tls``, as they are now or were when they could last be used.

    ``name``: of the setting that names them, for people. ``told``: hears of every replacement,
    "ok" or "refused". Raises OSError when the files cannot be used at first.
    """

    def __init__(self, tls: Tls, name: str, told: Callable[[str], object]) -> None:
        self._tls = tls
        self._name = name
        self._told = told
        self._lock = threading.Lock()  # handshakes of gRPC come from threads of its own
        self._said: tuple[Stamps, str] | None = None
        self._seen, found = self._read(self._stamps())
        if not isinstance(found, Pem):
            raise OSError(f"{name}: {_words(found)}")
        self.now = found

    def renew(self) -> bool:
        """Whether ``now`` is another. To be called for every handshake."""
        with self._lock:
            stamps = self._stamps()
            if stamps == self._seen:
                return False
            stamps, found = self._read(stamps)
            if isinstance(found, Pem):
                self._seen, self._said, self.now = stamps, None, found
                log.info("%s: the certificate was replaced; new connections get it", self._name)
                self._told("ok")
                return True
            # Not seen, but tried again: a lack of descriptors ends without a change of the files.
            if (stamps, said := _words(found)) != self._said:
                self._said = stamps, said
                self._refused(said)
            return False

    def _read(self, stamps: Stamps) -> tuple[Stamps, Pem | OSError]:
        for _ in range(READINGS):
            found = _loaded(self._tls)
            before, stamps = stamps, self._stamps()
            if stamps == before:  # not the certificate of before with the key of after
                return stamps, found
        return stamps, ssl.SSLError(f"{self._tls.cert_file} is being written without end")

    def _refused(self, said: str) -> None:
        log.error(
            "%s: the certificate was replaced by one that cannot be used, the one before is "
            "served: %s",
            self._name,
            said,
        )
        self._told("refused")

    def _stamps(self) -> Stamps:
        tls = self._tls
        files = (tls.cert_file, tls.key_file, tls.client_ca_file)
        return [stamp(file) for file in files if file is not None]


def load(tls: Tls) -> Pem:
    """Reads the files of ``tls``. Raises OSError, ssl.SSLError when they are no pair or no PEM."""
    ca = tls.client_ca_file
    cert, key = tls.cert_file.read_bytes(), tls.key_file.read_bytes()
    client_ca = ca.read_bytes() if ca is not None else None
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        # A passphrase is never asked for: that would wait for a terminal.
        context.load_cert_chain(tls.cert_file, tls.key_file, password="")
    except ssl.SSLError as error:
        raise ssl.SSLError(_wrong(tls, error)) from None
    if ca is not None:
        try:
            context.load_verify_locations(ca)
        except ssl.SSLError:
            raise ssl.SSLError(f"{ca} holds no certificate in PEM") from None
        context.verify_mode = ssl.CERT_REQUIRED
    return Pem(cert, key, client_ca, context)


def _loaded(tls: Tls) -> Pem | OSError:
    try:
        return load(tls)
    except OSError as error:
        return error


def _wrong(tls: Tls, error: ssl.SSLError) -> str:
    cert, key = tls.cert_file, tls.key_file
    if error.reason in ("KEY_VALUES_MISMATCH", "NO_CERTIFICATE_ASSIGNED"):  # the latter: RSA and EC
        return f"{key} is not the key of {cert}; write the two of one issue"
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_verify_locations(cert)
    except ssl.SSLError:
        return f"{cert} holds no certificate in PEM"
    if error.reason:  # the library refuses the pair: too short a key, for instance
        return f"{cert}: {error.reason.lower().replace('_', ' ')}"
    return f"{key} holds no private key in PEM, or one with a passphrase; write one without"


def _words(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        return str(error.args[0])
    return f"{error.filename or 'a file'} cannot be read: {error.strerror}"
