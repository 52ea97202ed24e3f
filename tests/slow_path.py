"""A path that takes long: a TCP proxy on a thread of its own that hands on each byte after a delay."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from types import TracebackType

LIMIT_S = 20.0
_CHUNK_BYTES = 65_536


class SlowPath:
    """Carries connections from `address` to `target`, `host:port`. A round trip takes `round_trip_s` more; a connection
    is made at the proxy at once, and there is an answer only after a round trip."""

    def __init__(self, target: str, round_trip_s: float = 0.3) -> None:
        self._target = target.rpartition(":")
        self._delay_s = round_trip_s / 2
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._carrying: set[asyncio.Task[None]] = set()
        self._writers: list[asyncio.StreamWriter] = []
        self.connections = 0

    def __enter__(self) -> SlowPath:
        self._thread.start()
        self._server = asyncio.run_coroutine_threadsafe(
            asyncio.start_server(self._carry, "127.0.0.1", 0), self._loop
        ).result(LIMIT_S)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop).result(LIMIT_S)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(LIMIT_S)
        self._loop.close()

    async def _close(self) -> None:
        self._server.close()
        for task in self._carrying:
            task.cancel()
        await asyncio.gather(*self._carrying, return_exceptions=True)
        for writer in self._writers:
            writer.transport.abort()
        await asyncio.sleep(0)  # for that to be done

    async def _carry(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        host, _, port = self._target
        far_reader, far_writer = await asyncio.open_connection(host, int(port))
        self._writers += [writer, far_writer]
        for source, sink in ((reader, far_writer), (far_reader, writer)):
            task = asyncio.ensure_future(self._hand_on(source, sink))
            self._carrying.add(task)
            task.add_done_callback(self._carrying.discard)

    async def _hand_on(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):  # either end may go at any time
            while data := await source.read(_CHUNK_BYTES):
                self._loop.call_later(self._delay_s, _write, sink, data)
        await asyncio.sleep(self._delay_s)
        sink.close()


def _write(sink: asyncio.StreamWriter, data: bytes) -> None:
    if not sink.is_closing():
        sink.write(data)
