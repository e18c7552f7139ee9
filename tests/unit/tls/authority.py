"""PEM files as cert-manager or an operator writes them, and replaces them."""

from __future__ import annotations

import os
import ssl
from pathlib import Path

import trustme
from cryptography import x509

from extproc.tls import Tls

HOST = "localhost"


class Files:
    """A folder with a certificate for ``HOST``, its key, and with ``client_ca`` that as well."""

    def __init__(self, folder: Path, client_ca: bool = False, swapped: bool = False) -> None:
        self._folder = folder
        self._swapped = swapped
        self._written = 0
        ca = folder / "ca.crt" if client_ca else None
        self.tls = Tls(folder / "tls.crt", folder / "tls.key", ca)

    def write(self, ca: trustme.CA, clients: trustme.CA | None = None) -> int:
        """A certificate of ``ca``; its serial number."""
        made = ca.issue_cert(HOST)
        cert = made.cert_chain_pems[0].bytes()
        content = {"tls.crt": cert, "tls.key": made.private_key_pem.bytes()}
        if clients is not None:
            content["ca.crt"] = clients.cert_pem.bytes()
        self.put(content)
        return x509.load_pem_x509_certificate(cert).serial_number

    def put(self, content: dict[str, bytes]) -> None:
        """Over the old files, or as Kubernetes does it: a new folder, then one link is swapped."""
        folder = self._folder
        if not self._swapped:
            for name, value in content.items():
                (folder / name).write_bytes(value)
            return
        self._written += 1
        version = folder / f"..version_{self._written}"
        version.mkdir()
        for name, value in content.items():
            (version / name).write_bytes(value)
        (folder / "..new").symlink_to(version.name)
        os.rename(folder / "..new", folder / "..data")
        for name in content:
            if not (folder / name).is_symlink():
                (folder / name).symlink_to(f"..data/{name}")


def client(trusts: trustme.CA, own: trustme.CA | None = None) -> ssl.SSLContext:
    """Of a client that trusts one authority, and shows a certificate of another."""
    context = ssl.create_default_context(cadata=trusts.cert_pem.bytes().decode())
    if own is not None:
        own.issue_cert("client.internal").configure_cert(context)
    return context
