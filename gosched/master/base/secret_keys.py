"""The keyring of this master: read at the start, and again when its file changes or SIGHUP comes.

Invariant: a keyring that is bad, or cannot be had, changes nothing of the one that is in use; no line of the log has
anything of a key.
"""

from __future__ import annotations

import asyncio
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

import structlog

from gosched.config.private import exposed
from gosched.config.secrets_model import Secrets
from gosched.master.base.errors import ApiError, unavailable, unmet
from gosched.wire.secret_keys import MAX_KEYRING_BYTES, BadKeyring, Keyring, parse_keyring

LOOK_S = 2.0  # between two looks at the file
ASK_AGAIN_S = 30.0  # between two runs of a command that gave no keys
COMMAND_S = 20.0  # for a command to end
NOT_CONFIGURED = "this cluster keeps no secrets: its masters need secrets.key_file in their config"

log = structlog.get_logger()


class SecretKeys:
    """`settings` None: this master has no keys. `command_s`: how long a command may take."""

    def __init__(self, settings: Secrets | None, *, command_s: float = COMMAND_S) -> None:
        self._settings = settings
        self._command_s = command_s
        #: None: there are no keys, or none yet.
        self.keyring: Keyring | None = None
        self._seen: tuple[int, ...] = ()  # of the file that was read last
        self._asked = asyncio.Event()
        self._told = ""
        self._asked_at = 0.0

    @property
    def is_awaited(self) -> bool:
        """Return whether there will be keys, and are none yet."""
        return self._settings is not None and self.keyring is None

    def start(self) -> str:
        """Read the keys, and return why this master cannot start, in one line; empty: it can. Without a KMS, which may
        be down, it can: its command is run again."""
        if self._settings is None:
            return ""
        self.look()
        return "" if self._settings.key_command or self.keyring is not None else self._told

    def ask(self) -> None:
        """Make `run` read the keys at once."""
        self._asked.set()

    async def run(self) -> NoReturn:
        """Keep the keys fresh for as long as the master runs."""
        while True:
            try:
                async with asyncio.timeout(LOOK_S):
                    await self._asked.wait()
            except TimeoutError:
                pass
            asked = self._asked.is_set()
            self._asked.clear()
            if self._settings is not None and (asked or await asyncio.to_thread(self._is_stale)):
                await asyncio.to_thread(self.look)

    def look(self) -> None:
        """Read the keys, and take them up if they are good. What is bad is logged once."""
        self._asked_at = time.monotonic()
        try:
            self._seen = self._stamp()
            found = parse_keyring(self._read())
        except (BadKeyring, OSError) as error:
            problem = f"{self._name()}: {error.strerror or error if isinstance(error, OSError) else error}"
            if problem != self._told:
                log.error("the keys of secrets cannot be taken up", problem=problem, in_use=self._ids())
            self._told = problem
            return
        if self.keyring is not None and found != self.keyring:
            log.info("keys of secrets taken up", keys=[key.id for key in found.keys])
        self.keyring, self._told = found, ""

    def needed(self) -> Keyring:
        """Return the keys. Raises ApiError where there are none."""
        if self.keyring is None:
            raise self._lack()
        return self.keyring

    def _lack(self) -> ApiError:
        if self._settings is None:
            return unmet(NOT_CONFIGURED)
        return unavailable("this master has got no keys of secrets yet: its log says why")

    def _ids(self) -> list[str]:
        return [key.id for key in self.keyring.keys] if self.keyring is not None else []

    def _is_stale(self) -> bool:
        assert self._settings is not None
        if self._settings.key_command:
            return self.keyring is None and time.monotonic() - self._asked_at >= ASK_AGAIN_S
        try:
            return self._stamp() != self._seen
        except OSError:
            return not self._told

    def _stamp(self) -> tuple[int, ...]:
        """Return what changes with the file. Raises OSError."""
        assert self._settings is not None
        if not self._settings.key_file:
            return ()
        found = os.stat(self._settings.key_file)
        return found.st_mtime_ns, found.st_size, found.st_ino, found.st_mode

    def _read(self) -> bytes:
        """Return the lines. Raises BadKeyring, OSError."""
        assert self._settings is not None
        if self._settings.key_command:
            return output_of(self._settings.key_command, self._command_s)
        if self._settings.key_env:
            text = os.environ.get(self._settings.key_env, "")
            if not text:
                raise BadKeyring("the variable is not set")
            return text.encode(errors="replace")
        if problem := exposed(self._settings.key_file):
            raise BadKeyring(problem)
        with Path(self._settings.key_file).open("rb") as file:
            return file.read(MAX_KEYRING_BYTES + 1)

    def _name(self) -> str:
        settings = self._settings
        assert settings is not None
        if settings.key_file:
            return f"secrets.key_file {settings.key_file}"
        return f"secrets.key_env {settings.key_env}" if settings.key_env else "secrets.key_command"


def output_of(command: Sequence[str], limit_s: float) -> bytes:
    """Return what a command prints. It gets no input, and is killed with all that it started when its time is over.
    Raises BadKeyring, OSError."""
    with subprocess.Popen(
        list(command),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # it may say more than a log should hold
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        deadline = time.monotonic() + limit_s
        late = f"it has not ended within {limit_s:g} s"
        try:
            found = _read_all(process.stdout.fileno(), deadline, late)
            code = process.wait(max(0.0, deadline - time.monotonic()))
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)  # not waited for yet: the group's number is still its own
            if isinstance(error, subprocess.TimeoutExpired):
                raise BadKeyring(late) from None
            raise
    if code:
        raise BadKeyring(f"it ended with exit code {code}: run it by hand, as the master's user, to see why")
    return found


def _read_all(fd: int, deadline: float, late: str) -> bytes:
    found = b""
    while True:
        ready, _, _ = select.select([fd], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise BadKeyring(late)
        piece = os.read(fd, MAX_KEYRING_BYTES)
        if not piece:
            return found
        found += piece
        if len(found) > MAX_KEYRING_BYTES:
            raise BadKeyring(f"it prints more than {MAX_KEYRING_BYTES} bytes")
