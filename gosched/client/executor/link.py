"""The connection to one worker, in a thread of its own: hands it one call after the other.

A connection is an exec beside the worker's task, so nothing but the masters needs to be reachable from here. It may
break and be made anew while a call goes on.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

from gosched.client.client import GoSchedClient
from gosched.client.errors import Denied, GoSchedError, Unavailable
from gosched.client.exec import Exec
from gosched.client.executor.pickling import sources, worker_source
from gosched.client.executor.worker import BLOCK, HEAD, ID, MAX_FRAME, frame_of

HELLO_S = 30.0  # for a worker to answer
AGAIN_S = 0.5  # between two tries to connect
MAX_TRIES = 8  # to connect to a worker that runs and has not answered before


@dataclass(slots=True, eq=False)
class Item:
    """One call."""

    number: int
    data: bytes
    future: Future[Any]
    #: Workers that were lost with it.
    lost: int = 0


class Office(Protocol):
    """Where a link gets calls, and brings results."""

    def next_item(self) -> Item | None:
        """Wait for a call; None: the worker is not needed any more."""

    def greeted(self, python: tuple[int, int]) -> bool:
        """Note the Python of a worker; False: it cannot be used."""

    def done(self, item: Item, kind: bytes, data: bytes) -> None: ...

    def lost(self, item: Item, why: str) -> None: ...

    def why_lost(self, element: str) -> str:
        """Return in what way a worker was lost; empty: it runs."""

    def unusable(self, element: str, why: str) -> None:
        """Give up a worker that runs and does not answer."""

    def denied(self, why: str) -> None:
        """Give up all workers: this client may not reach them."""


class Link(threading.Thread):
    """Serves one worker until it is not needed any more, or lost."""

    def __init__(self, client: GoSchedClient, element: str, python: str, office: Office) -> None:
        super().__init__(name=f"gosched-executor-{element}", daemon=True)
        self.element = element
        self._client, self._python, self._office = client, python, office
        self._item: Item | None = None
        self._run_id = ""
        self._command: Exec | None = None
        self._stopped = threading.Event()

    def stop(self) -> None:
        """Give the worker up at once."""
        self._stopped.set()
        if (command := self._command) is not None:
            command.cancel()

    def run(self) -> None:
        why = self._serve_until_lost()
        if self._item is not None:
            self._office.lost(self._item, f"{self.element}: {why or 'given up'}")

    def _serve_until_lost(self) -> str:
        """Connect again and again. Return why the worker is lost; empty: it is not needed any more."""
        why, tries = "", 0
        while not self._stopped.is_set():
            try:
                if self._serve():
                    return ""
            except Denied as error:
                self._office.denied(str(error))
                return str(error)
            except GoSchedError as error:
                why = str(error)
            except Exception as error:  # whatever a task sends that is no worker
                self._office.unusable(self.element, f"it does not speak as a worker: {error!r}")
                return repr(error)
            with suppress(Unavailable):  # no master answers: the worker may still be there
                if lost := self._office.why_lost(self.element):
                    return lost
            tries += not self._run_id
            if tries >= MAX_TRIES:
                self._office.unusable(self.element, why)
                return why
            self._stopped.wait(AGAIN_S)
        return why

    def _serve(self) -> bool:
        """Use one connection. Return True when the worker is not needed any more. Raises GoSchedError."""
        with Exec(self._client, self.element, [self._python, "-c", worker_source(), "relay"]) as command:
            self._command = command
            if self._stopped.is_set():  # `stop` came before there was a command to cancel
                return True
            impatient = threading.Timer(HELLO_S, command.cancel)
            impatient.start()
            try:
                frames = frames_of(command)
                kind, data = next(frames)
            finally:
                impatient.cancel()
            if kind != b"H":
                raise ValueError(f"it begins with {kind!r}")
            if not self._greet(command, json.loads(data)):
                return True
            while self._item is not None or self._take(command):
                self._bring(command, *next(frames))
            command.send(frame_of(b"Z", b""))
            for _ in command:  # until it has ended
                pass
            return True

    def _greet(self, command: Exec, hello: dict[str, Any]) -> bool:
        major, minor = hello["python"]
        if not self._office.greeted((major, minor)):
            return False
        send(command, frame_of(b"S", sources()))
        restarted, self._run_id = self._run_id not in ("", hello["run"]), hello["run"]
        if self._item is not None and self._item.number not in hello["held"]:
            if restarted:
                item, self._item = self._item, None
                self._office.lost(item, f"{self.element} was started again")
            else:
                self._send_item(command, self._item)
        return True

    def _take(self, command: Exec) -> bool:
        """Get the next call and send it. Return False when there is none."""
        self._item = self._office.next_item()
        if self._item is None:
            return False
        self._send_item(command, self._item)
        return True

    def _send_item(self, command: Exec, item: Item) -> None:
        send(command, frame_of(b"T", ID.pack(item.number) + item.data))

    def _bring(self, command: Exec, kind: bytes, data: bytes) -> None:
        """Acknowledge a result, and bring it to where it is waited for; others were brought before."""
        if kind not in (b"V", b"E"):
            return
        (number,) = ID.unpack_from(data)
        command.send(frame_of(b"A", ID.pack(number)))
        if self._item is not None and self._item.number == number:
            item, self._item = self._item, None
            self._office.done(item, kind, data[ID.size :])


def send(command: Exec, data: bytes) -> None:
    for start in range(0, len(data), BLOCK):
        command.send(data[start : start + BLOCK])


def frames_of(command: Exec) -> Iterator[tuple[bytes, bytes]]:
    """Yield the worker's frames. Raises GoSchedError when the connection ends."""
    data, said = bytearray(), b""
    for stream, part in command:
        if stream != "stdout":
            said = (said + part)[-1000:]
            continue
        data += part
        while len(data) >= HEAD.size:
            kind, size = HEAD.unpack_from(data)
            if size > MAX_FRAME + HEAD.size:
                raise ValueError(f"a frame of {size} bytes")
            if len(data) < HEAD.size + size:
                break
            yield kind, bytes(data[HEAD.size : HEAD.size + size])
            del data[: HEAD.size + size]
    raise Unavailable(f"the connection has ended: {said.decode('utf-8', 'replace').strip() or 'the worker has gone'}")
