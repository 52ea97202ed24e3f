"""Keyrings: the keys that secrets of tenants are sealed with, as they stand in a file.

One key a line, `ID:BASE64` of 32 bytes; empty lines and lines that begin with # are skipped. The first key seals, all
open: so a new key is put first, and the old one is removed once everything is sealed with the new one.
"""

from __future__ import annotations

import base64
import binascii
import re
import secrets
from dataclasses import dataclass, field

KEY_BYTES = 32
MAX_KEYS = 64
MAX_KEYRING_BYTES = 64 * 1024
_ID = re.compile(r"[A-Za-z0-9._-]{1,100}")


class BadKeyring(ValueError):
    """One line that says what is wrong with a keyring, and nothing of its keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Key:
    #: By which it is told apart; not secret.
    id: str
    #: 32 random bytes.
    value: bytes = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Keyring:
    """The keys of a master; the first one seals."""

    keys: tuple[Key, ...]

    @property
    def first(self) -> Key:
        return self.keys[0]

    def find(self, key_id: str) -> Key | None:
        return next((key for key in self.keys if key.id == key_id), None)


def parse_keyring(text: bytes) -> Keyring:
    """Return the keyring. Raises BadKeyring."""
    if len(text) > MAX_KEYRING_BYTES:
        raise BadKeyring(f"more than {MAX_KEYRING_BYTES} bytes")
    keys: list[Key] = []
    for number, line in enumerate(text.decode("ascii", errors="replace").splitlines(), start=1):
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        key = _key(line, number)
        if any(key.id == known.id for known in keys):
            raise BadKeyring(f"line {number}: there is a key {key.id} already")
        keys.append(key)
    if not keys:
        raise BadKeyring("it holds no key: add a line that goschedctl secret new-key prints")
    if len(keys) > MAX_KEYS:
        raise BadKeyring(f"{len(keys)} keys; at most {MAX_KEYS} are allowed")
    return Keyring(keys=tuple(keys))


def new_key_line(key_id: str) -> str:
    """Return the line of a new key. Raises BadKeyring for an id that cannot be one."""
    if not _ID.fullmatch(key_id):
        raise BadKeyring("the id of a key has 1 to 100 letters, digits, '.', '_' and '-'")
    return f"{key_id}:{base64.b64encode(secrets.token_bytes(KEY_BYTES)).decode()}"


def _key(line: str, number: int) -> Key:
    key_id, colon, coded = line.partition(":")
    try:
        value = base64.b64decode(coded, validate=True)
    except (binascii.Error, ValueError):
        value = b""
    if not colon or not _ID.fullmatch(key_id) or len(value) != KEY_BYTES:
        # The line is not shown: part of it may be a key.
        raise BadKeyring(f"line {number} is no ID:BASE64 of {KEY_BYTES} bytes: goschedctl secret new-key prints one")
    return Key(id=key_id, value=value)
