"""Encrypts backups: AES-256-GCM, frame by frame, with a key of each file's own.

The file's key comes from a passphrase (scrypt) or from a key file (HKDF), with a random salt that stands in its header.
Invariant: a frame opens only at its own place in its own file, so none can be left out, moved or exchanged.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from gosched.config.private import exposed

SALT_BYTES = 16
KEY_BYTES = 32
MAX_SECRET_BYTES = 4096
_SCRYPT = {"n": 1 << 15, "r": 8, "p": 1}  # 32 MiB, some 0.1 s
_MAX_SCRYPT_N = 1 << 20  # what is in a file may ask for no more
_KEY_CHECK = b"gosched backup: key check"


class BadBackup(Exception):
    """One line that says what is wrong with a backup, or with the key to it, and what to do."""


@dataclass(frozen=True, slots=True)
class Secret:
    """What backups are encrypted with."""

    #: The content of a passphrase file, or of a key file.
    value: bytes
    #: Whether it is a key of 32 random bytes.
    is_key: bool


class Seal(Protocol):
    """Encrypts frames on their way into a file, and decrypts them out of it. `bound`: the file's header."""

    def close(self, index: int, *, final: bool, data: bytes, bound: bytes) -> bytes: ...

    def open(self, index: int, *, final: bool, data: bytes, bound: bytes) -> bytes:
        """Decrypt a frame. Raises BadBackup."""
        ...


def read_secret(passphrase_file: str | None, key_file: str | None) -> Secret | None:
    """Return what the files hold; None: neither is named. Raises BadBackup."""
    if passphrase_file and key_file:
        raise BadBackup("name a passphrase file or a key file, not both")
    path = passphrase_file or key_file
    if not path:
        return None
    try:
        with Path(path).open("rb") as file:
            value = file.read(MAX_SECRET_BYTES + 1)
        problem = exposed(path)
    except OSError as error:
        raise BadBackup(f"cannot read {path}: {error.strerror}") from error
    if problem:
        raise BadBackup(problem)
    if len(value) > MAX_SECRET_BYTES:
        raise BadBackup(f"{path} has more than {MAX_SECRET_BYTES} bytes: it is too large for a passphrase or a key")
    if key_file:
        return Secret(_key(value, key_file), is_key=True)
    if not value.strip():
        raise BadBackup(f"{path} is empty: write a passphrase into it")
    return Secret(value.strip(b"\r\n"), is_key=False)


def new_seal(secret: Secret | None) -> tuple[Seal, dict[str, Any] | None]:
    """Return a seal for a new file, and what its header says of it. Raises BadBackup."""
    if secret is None:
        return _Plain(), None
    salt = secrets.token_bytes(SALT_BYTES)
    described: dict[str, Any] = {"cipher": "AES-256-GCM", "salt": salt.hex()}
    described.update({"key": "file"} if secret.is_key else {"key": "scrypt", **_SCRYPT})
    seal = _Sealed(_derived(secret, salt, _SCRYPT))
    return seal, {**described, "check": seal.close(0, final=False, data=b"", bound=_KEY_CHECK).hex()}


def seal_of(described: dict[str, Any] | None, secret: Secret | None) -> Seal:
    """Return the seal of a file whose header says this. Raises BadBackup."""
    if described is None:
        return _Plain()
    if secret is None:
        what = "--key-file" if described.get("key") == "file" else "--passphrase-file"
        raise BadBackup(f"it is encrypted: name what it was encrypted with ({what} FILE)")
    try:
        kind, salt, check = described["key"], bytes.fromhex(described["salt"]), bytes.fromhex(described["check"])
        costs = {name: int(described[name]) for name in _SCRYPT} if kind == "scrypt" else {}
    except (KeyError, TypeError, ValueError) as error:
        raise BadBackup(f"its header is damaged ({error!r}): take another backup") from error
    if described.get("cipher") != "AES-256-GCM" or kind not in ("scrypt", "file") or costs.get("n", 0) > _MAX_SCRYPT_N:
        raise BadBackup("it is encrypted in a way that this gosched does not know: use the gosched that made it")
    if secret.is_key is not (kind == "file"):
        raise BadBackup(f"it was encrypted with a {'key file' if kind == 'file' else 'passphrase'}: name that")
    seal = _Sealed(_derived(secret, salt, costs))
    try:
        seal.open(0, final=False, data=check, bound=_KEY_CHECK)
    except BadBackup:
        whose = "key" if secret.is_key else "passphrase"
        raise BadBackup(f"the {whose} is not the one that this backup was encrypted with") from None
    return seal


class _Plain:
    def close(self, index: int, *, final: bool, data: bytes, bound: bytes) -> bytes:
        return data

    def open(self, index: int, *, final: bool, data: bytes, bound: bytes) -> bytes:
        return data


class _Sealed:
    def __init__(self, key: bytes) -> None:
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        self._cipher = AESGCM(key)

    def close(self, index: int, *, final: bool, data: bytes, bound: bytes) -> bytes:
        return self._cipher.encrypt(_nonce(index, final=final), data, bound)

    def open(self, index: int, *, final: bool, data: bytes, bound: bytes) -> bytes:
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(_nonce(index, final=final), data, bound)
        except (InvalidTag, ValueError):
            raise BadBackup(f"it was damaged or changed (part {index}): take another backup") from None


def _nonce(index: int, *, final: bool) -> bytes:
    """Return a counter: no two files have the same key."""
    return bytes([final]) + index.to_bytes(11, "big")


def _derived(secret: Secret, salt: bytes, costs: dict[str, int]) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

    if secret.is_key:
        return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=salt, info=b"gosched backup").derive(secret.value)
    return Scrypt(salt=salt, length=KEY_BYTES, **costs).derive(secret.value)


def _key(value: bytes, path: str) -> bytes:
    if len(value) == KEY_BYTES:
        return value
    try:
        key = bytes.fromhex(value.decode("ascii"))
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise BadBackup(f"{path} is no key of {KEY_BYTES} bytes: make one with openssl rand -hex {KEY_BYTES}")
    return key
