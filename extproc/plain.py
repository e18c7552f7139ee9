"""Text from outside, as logs, records and terminals may have it."""

from __future__ import annotations


def on_one_line(text: str) -> str:
    """``text`` without line breaks and with U+FFFD for what is not to be printed: control
    characters, which move cursors, marks that turn the direction, halves of surrogate pairs."""
    return "".join(char if char.isprintable() else "\ufffd" for char in " ".join(text.split()))


def without_user(url: str) -> str:
    """``url`` as it may be shown: without the user and the password before its host."""
    scheme, separator, rest = url.rpartition("://")
    host, slash, path = rest.partition("/")
    return f"{scheme}{separator}{host.rpartition('@')[2]}{slash}{path}"
