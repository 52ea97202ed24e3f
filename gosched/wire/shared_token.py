"""The token of a cluster without TLS that is its owner's alone, such as one of `goschedctl local`: each program of the
cluster has it in a file, and every caller shows it, at every port.

On the owner's machine it is found by the address that is called, in a directory that no other account can look into.

Invariant: it is sent to this machine alone, and is never on a command line.
"""

from __future__ import annotations

import contextlib
import hmac
import os
import re
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

AUTHORIZATION = "authorization"
LINK = "login link"  # what is proven in the link to the page that `goschedctl local up` prints
_LOOPBACK = ("localhost", "::1")
_LOOPBACK_ADDRESS = re.compile(r"127(\.[0-9]{1,3}){3}")
_BASES = ("/dev/shm", "/tmp")  # noqa: S108 - the directory below is the user's own, or it is not used
_MAX_TOKEN = 4096


class SharedToken:
    """The token, as those that are called compare it."""

    def __init__(self, token: str) -> None:
        self.token = token
        #: What a browser keeps in its place: other servers of this machine may see that.
        self.session = self.proof("session")

    def is_shown(self, metadata: Iterable[tuple[str, Any]]) -> bool:
        """Return whether the metadata of a call bear it."""
        return any(name == AUTHORIZATION and self.is_of(str(value)) for name, value in metadata)

    def is_of(self, value: str, *, of_browser: bool = False) -> bool:
        """Return whether this value of the header bears it. `of_browser`: what browsers keep counts, too."""
        shown = value[7:].strip() if value[:7].lower() == "bearer " else ""
        wanted = (self.token, self.session) if of_browser else (self.token,)
        return any(hmac.compare_digest(shown.encode(errors="replace"), each.encode()) for each in wanted)

    def proof(self, *words: str) -> str:
        """Return what only those know that have the token."""
        return hmac.new(self.token.encode(), "\0".join(words).encode(), "sha256").hexdigest()


def read_token(file: str | Path) -> str:
    """Return the token in a file. Raises OSError, and ValueError for one that is no token."""
    token = Path(file).read_text(encoding="ascii").strip()
    if not token or len(token) > _MAX_TOKEN or not token.isprintable():
        raise ValueError(f"{file} holds no token")
    return token


def with_token(channel: Any, token: str) -> Any:
    """Return the channel as one whose calls all bear the token. gRPC's own way to do so wants TLS."""
    return _Bearing(channel, ((AUTHORIZATION, f"Bearer {token}"),)) if token else channel


def is_of_this_machine(target: str) -> bool:
    """Return whether host:port, or a URL, names this machine by its loopback."""
    host = target.partition("://")[2] or target
    host = host.partition("/")[0].rpartition(":")[0].strip("[]")
    return host in _LOOPBACK or _LOOPBACK_ADDRESS.fullmatch(host) is not None


def token_of_address(target: str) -> str:
    """Return the token of this user's cluster at an address of this machine; empty: it has none there."""
    if not is_of_this_machine(target):
        return ""
    for directory in _directories():
        with contextlib.suppress(OSError, ValueError):
            if _is_own(directory):
                return read_token(directory / _name(target))
    return ""


def keep_tokens(addresses: Iterable[str], token: str) -> None:
    """Let this user's clients find the token of these addresses. Raises OSError."""
    directory = next(each for each in _directories() if each.parent.is_dir())
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    if not _is_own(directory):
        raise PermissionError(1, "another user's, or others can look into it", str(directory))
    for address in addresses:
        scratch = directory / f"{_name(address)}.new"
        write_token(scratch, token)
        scratch.rename(directory / _name(address))


def forget_tokens(addresses: Iterable[str]) -> None:
    for address in addresses:
        for directory in _directories():
            with contextlib.suppress(OSError):
                (directory / _name(address)).unlink()


def write_token(file: Path, token: str) -> None:
    """Write a file that only this user can read. Raises OSError."""
    with contextlib.suppress(FileNotFoundError):
        file.unlink()
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "w") as out:
        out.write(f"{token}\n")


class _Bearing:
    def __init__(self, channel: Any, metadata: tuple[tuple[str, str], ...]) -> None:
        self._channel = channel
        self._metadata = metadata

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._channel, name)
        if name not in ("unary_unary", "unary_stream", "stream_unary", "stream_stream"):
            return found
        return lambda *words, **more: _BearingCall(found(*words, **more), self._metadata)

    def __enter__(self) -> _Bearing:
        self._channel.__enter__()
        return self

    def __exit__(self, *error: object) -> Any:
        return self._channel.__exit__(*error)

    async def __aenter__(self) -> _Bearing:
        await self._channel.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> Any:
        return await self._channel.__aexit__(*error)


class _BearingCall:
    """What one method of a channel is called by, with asyncio or without."""

    def __init__(self, call: Any, metadata: tuple[tuple[str, str], ...]) -> None:
        self._call = call
        self._metadata = metadata

    def __call__(self, *words: Any, metadata: Any = None, **more: Any) -> Any:
        return self._call(*words, metadata=(*(metadata or ()), *self._metadata), **more)

    def with_call(self, *words: Any, metadata: Any = None, **more: Any) -> Any:
        return self._call.with_call(*words, metadata=(*(metadata or ()), *self._metadata), **more)


def _directories() -> Iterator[Path]:
    for base in _BASES:
        yield Path(f"{base}/gosched-local-{os.geteuid()}")


def _is_own(directory: Path) -> bool:
    seen = os.lstat(directory)
    return stat.S_ISDIR(seen.st_mode) and seen.st_uid == os.geteuid() and not seen.st_mode & 0o077


def _name(address: str) -> str:
    """Return the name of the file of an address: that of the port, which is another one's at each loopback address."""
    host = address.partition("://")[2] or address
    host, _, port = host.partition("/")[0].rpartition(":")
    return f"{'127.0.0.1' if host in _LOOPBACK else host.strip('[]')}_{port}"
