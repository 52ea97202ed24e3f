"""Takes, stores, sends and receives snapshots. It takes the place of PySyncObj's Serializer, whose method names it has.

Compared with the library's: the records are captured at once but encoded in a background thread, a received file is
verified before it replaces anything, a slow peer is waited for, and no failure is only logged.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from typing import Any

import structlog
from pysyncobj.config import SERIALIZER_STATE

from gosched.core.state.cluster_state import ClusterState
from gosched.replication.disk.damage import DamagedLog
from gosched.replication.disk.disk import Disk
from gosched.replication.disk.journal_format import Entry
from gosched.replication.snapshots.snapshot import FILE, Snapshot, decode, encode, ends, restored

CHUNK_BYTES = 512 * 1024
MAX_BACKLOG_BYTES = 4 * 1024 * 1024
MAX_SNAPSHOT_BYTES = 4 * 1024 * 1024 * 1024

log = structlog.get_logger()


class Snapshots:
    """`state` gives the state to capture; `install` takes over a restored one, with the index of its last entry.
    `backlog` tells how many bytes wait to be sent to a peer. `run` runs the encoding, by default in a thread."""

    def __init__(
        self,
        disk: Disk,
        *,
        state: Callable[[], ClusterState],
        install: Callable[[ClusterState, int], None],
        run: Callable[[Callable[[], None]], None] | None = None,
    ) -> None:
        self._disk = disk
        self._state = state
        self._install = install
        self._run = run or _in_thread
        self._result: int | None = None  # of a finished encoding, until it is told
        self._taking = False
        self._taken_index = 0
        self._sending: dict[Any, tuple[bytes, int]] = {}  # peer -> file, offset
        self._incoming: bytearray | None = None
        self.backlog: Callable[[Any], int] = lambda peer: 0
        self.applied: Callable[[], int] = lambda: 0  # the last entry known to be committed here
        self.announce: Callable[[Entry], None] = lambda last: None  # before a file is put in place
        self.file_bytes = 0  # of the newest file, as far as known
        self.failure: Exception | None = None  # the owner must stop when this is set

    # What PySyncObj calls

    def serialize(self, data: tuple[Any, Entry, Entry, Any], id: int) -> None:
        _, last, previous, _ = data
        snapshot = Snapshot(self._state().freeze(), previous, last)
        self.announce(last)
        self._taking, self._taken_index, self._result = True, id, None
        self._run(lambda: self._write(snapshot))

    def checkSerializing(self) -> tuple[int, int | None]:
        if not self._taking:
            return SERIALIZER_STATE.NOT_SERIALIZING, None
        result = self._result
        if result is None:
            return SERIALIZER_STATE.SERIALIZING, self._taken_index
        self._taking = False
        return result, self._taken_index

    def deserialize(self) -> tuple[None, Entry, Entry, None]:
        """Load the file and hand the state over. The library swallows what it raises, hence `failure`."""
        try:
            data = self._disk.read(FILE)
            if data is None:
                raise DamagedLog(f"{FILE} is gone")
            self.file_bytes = len(data)
            with _GcOff():
                snapshot = decode(data)
                self._install(restored(snapshot), snapshot.last[1])
        except Exception as error:
            self.failure = error
            raise
        return None, snapshot.last, snapshot.previous, None

    def getTransmissionData(self, peer: Any) -> tuple[bytes, bool, bool] | None:
        """Return the next chunk for a peer: data, first, last. None while there is nothing to send or too much under
        way.
        """
        if self.backlog(peer) > MAX_BACKLOG_BYTES:
            return None
        if peer not in self._sending:
            data = self._disk.read(FILE)
            if data is None:
                return None
            self._sending[peer] = (data, 0)
        data, offset = self._sending[peer]
        chunk = data[offset : offset + CHUNK_BYTES]
        end = offset + len(chunk)
        if end == len(data):
            del self._sending[peer]
        else:
            self._sending[peer] = (data, end)
        return chunk, offset == 0, end == len(data)

    def setTransmissionData(self, chunk: tuple[bytes, bool, bool] | None) -> bool:
        """Take a chunk; return True once a whole, verified file is in place."""
        if not chunk:
            return False
        data, first, last = chunk
        if self._taking:  # our own older one must not be renamed over it
            self._incoming = None
            return False
        if first:
            self._incoming = bytearray()
        if self._incoming is None:
            return False
        if len(self._incoming) + len(data) > MAX_SNAPSHOT_BYTES:
            self._incoming = None
            return False
        self._incoming += data
        if not last:
            return False
        received, self._incoming = bytes(self._incoming), None
        try:
            _, last_entry = ends(received)
        except DamagedLog as error:
            log.warning("snapshot refused", why=str(error))  # the leader will offer it again
            return False
        if last_entry[1] <= self.applied():  # rule R11
            return False
        self.announce(last_entry)
        self._disk.replace(FILE, [received])
        return True

    def cancelTransmisstion(self, peer: Any) -> None:
        self._sending.pop(peer, None)

    def _write(self, snapshot: Snapshot) -> None:
        try:
            self._disk.replace(FILE, self._counted(encode(snapshot)))
            self._result = SERIALIZER_STATE.SUCCESS
        except Exception as error:  # of a thread: the tick raises it, the failure of a disk like any other
            self.failure = error

    def _counted(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        size = 0
        for chunk in chunks:
            size += len(chunk)
            yield chunk
        self.file_bytes = size


def _in_thread(job: Callable[[], None]) -> None:
    threading.Thread(target=job, name="snapshot", daemon=True).start()


class _GcOff:
    """Loading makes records by the hundred thousand that all stay: collecting meanwhile only costs time."""

    def __enter__(self) -> None:
        self._was_on = gc.isenabled()
        gc.disable()

    def __exit__(self, *_: object) -> None:
        gc.freeze()
        if self._was_on:
            gc.enable()
