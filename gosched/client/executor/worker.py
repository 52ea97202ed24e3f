"""What the tasks of a GoSchedExecutor run: `python -c SOURCE work`, and beside it, by exec, `python -c SOURCE relay`.

It is sent along with the job, so it needs the standard library alone and no gosched. The worker executes one call at a
time; the relay joins the input and output of an exec to the worker's socket, so that a connection may break while a
call goes on. What the calls print goes to the task's log.

Frames, in both directions: a letter, the length of the rest (8 bytes), and the rest.
    to the worker:   S sources of cloudpickle (JSON)   T id (8 bytes), pickle   A id: the result has come   Z: end
    to the client:   H JSON: python, run, held   V id, pickled value   E id, pickle of (exception or None, its text)

Invariant: a result is held until the client has acknowledged it, and a call that is held is not begun again.
"""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import pickle
import queue
import socket
import struct
import sys
import threading
import time
import traceback
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any, cast

HEAD = struct.Struct("!cQ")
ID = struct.Struct("!Q")
MAX_FRAME = 1 << 30
ORPHAN_S = 120.0  # a worker without work ends when no client has been there for so long
CONNECT_S = 20.0  # of the relay, to a worker that starts
BLOCK = 1 << 18


def main() -> None:
    {"work": work, "relay": relay}[sys.argv[1]]()


def address() -> str:
    """Return the worker's socket: an abstract name, so that no file is left, and no directory is needed."""
    return "\0gosched-executor/" + os.environ["GOSCHED_ALLOCATION_ID"]


def is_own(connection: socket.socket) -> bool:
    """Tell whether the other end of a connection is of the same user: everybody may connect to an abstract name."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return bool(struct.unpack("3i", found)[1] == os.getuid())


def relay() -> None:
    connection = connected(time.monotonic() + CONNECT_S)
    if not is_own(connection):
        sys.exit("the worker's socket belongs to another user")
    threading.Thread(target=copy_input, args=(connection,), daemon=True).start()
    while data := connection.recv(BLOCK):
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()


def connected(ends: float) -> socket.socket:
    while True:
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.connect(address())
            return connection
        except OSError as error:
            connection.close()
            if time.monotonic() > ends:
                sys.exit(f"the worker does not answer: {error.strerror}")
            time.sleep(0.05)


def copy_input(connection: socket.socket) -> None:
    try:
        while data := os.read(0, BLOCK):
            connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
    except OSError:  # the worker has ended; the other direction sees it
        pass


def work() -> None:
    server = socket.socket(socket.AF_UNIX)
    server.bind(address())
    server.listen(4)
    Worker(server).run()


class Worker:
    """Executes calls, one at a time, for the client that connected last."""

    def __init__(self, server: socket.socket) -> None:
        self.server = server
        self.calls: queue.SimpleQueue[tuple[int, bytes] | None] = queue.SimpleQueue()  # of (id, pickle); None: end
        self.held: dict[int, bytes | None] = {}  # id -> the frame of its result; None: it is not there yet
        self.peer: socket.socket | None = None
        self.sending = threading.RLock()
        self.alone_since = time.monotonic()
        self.run_id = f"{os.getpid()}.{time.time_ns()}"

    def run(self) -> None:
        threading.Thread(target=self.accept, daemon=True).start()
        while True:
            try:
                call = self.calls.get(timeout=1.0)
            except queue.Empty:
                if self.peer is None and time.monotonic() - self.alone_since > ORPHAN_S:
                    return
                continue
            if call is None:
                return
            frame = self.result_of(*call)
            with self.sending:
                self.held[call[0]] = frame
                self.alone_since = time.monotonic()
                self.send(frame)

    def result_of(self, number: int, pickled: bytes) -> bytes:
        """Return the frame of a call's value, or of what it raised."""
        try:
            function, args, kwargs = pickle.loads(pickled)  # noqa: S301 - the caller may run what it likes here
            kind, data = b"V", self.dumps(function(*args, **kwargs))
            if len(data) > MAX_FRAME:
                raise ValueError(f"the result takes {len(data)} bytes, at most {MAX_FRAME} go: write it to a file")
        except BaseException as error:  # SystemExit is the call's, too
            kind, data = b"E", self.failure(error)
        sys.stdout.flush()
        return frame_of(kind, ID.pack(number) + data)

    def failure(self, error: BaseException) -> bytes:
        text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        try:
            pickled = self.dumps(error)
        except Exception:  # an exception may hold what cannot be pickled; its text says enough
            pickled = None
        return pickle.dumps((pickled, text))

    def dumps(self, value: object) -> bytes:
        import cloudpickle

        data: bytes = cloudpickle.dumps(value)
        return data

    def accept(self) -> None:
        while True:
            connection, _ = self.server.accept()
            if not is_own(connection):
                connection.close()
                continue
            with self.sending:
                if self.peer is not None:
                    close(self.peer)
                self.peer = connection
                hello = {"python": list(sys.version_info[:2]), "run": self.run_id, "held": list(self.held)}
                self.send(frame_of(b"H", json.dumps(hello).encode()))
                for frame in [frame for frame in self.held.values() if frame is not None]:
                    self.send(frame)
            threading.Thread(target=self.read, args=(connection,), daemon=True).start()

    def read(self, connection: socket.socket) -> None:
        try:
            with connection.makefile("rb") as file:
                while head := file.read(HEAD.size):
                    kind, size = HEAD.unpack(head)
                    self.take(kind, file.read(size))
        except (OSError, struct.error):
            pass  # the client has gone; another connection may come
        with self.sending:
            if self.peer is connection:
                self.peer, self.alone_since = None, time.monotonic()

    def take(self, kind: bytes, data: bytes) -> None:
        if kind == b"S":
            ship(json.loads(data))
        elif kind == b"T":
            (number,) = ID.unpack_from(data)
            with self.sending:
                new = number not in self.held
                self.held.setdefault(number, None)
            if new:
                self.calls.put((number, data[ID.size :]))
        elif kind == b"A":
            with self.sending:
                self.held.pop(ID.unpack(data)[0], None)
        elif kind == b"Z":
            self.calls.put(None)

    def send(self, frame: bytes) -> None:
        if self.peer is None:
            return
        try:
            self.peer.sendall(frame)
        except OSError:
            close(self.peer)  # its reader notices; what could not be sent is held


def frame_of(kind: bytes, data: bytes) -> bytes:
    return HEAD.pack(kind, len(data)) + data


def close(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        connection.shutdown(socket.SHUT_RDWR)


class Shipped:
    """Imports modules from their sources in memory."""

    def __init__(self, sources: dict[str, str]) -> None:
        self.sources = sources

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if name in self.sources:
            return importlib.util.spec_from_loader(name, cast(Any, self), is_package="." not in name)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        code = compile(self.sources[module.__name__], module.__name__, "exec")
        exec(code, module.__dict__)  # noqa: S102 - the client's own cloudpickle


def ship(sources: dict[str, str]) -> None:
    """Make the client's own cloudpickle importable, whatever is installed here."""
    if "cloudpickle" not in sys.modules and not any(isinstance(finder, Shipped) for finder in sys.meta_path):
        sys.meta_path.insert(0, cast(Any, Shipped(sources)))


if __name__ == "__main__":
    main()
