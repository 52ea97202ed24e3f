"""Messages between the programs of one MPI job: lines of JSON, each sealed with the secret of the job's attempt.

Invariant: no message is read that was not made by a program that knows the secret, for this connection, in this place
of its order. What they say is not hidden.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import json
import secrets
from collections.abc import AsyncIterator
from hashlib import blake2b
from typing import Any

Message = dict[str, Any]

GREETING_S = 10.0
_MAX_LINE = 4 << 20
_NONCE_BYTES = 16
_HEX_SEAL = 32


class NotTrusted(Exception):
    """The other side does not know the secret."""


class Channel:
    """One side of a connection."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, key: bytes, own: bytes, other: bytes
    ) -> None:
        self._reader, self._writer = reader, writer
        self._key = key
        self._sides = (own, other)
        self._counts = [0, 0]  # of messages sent, and received

    def send(self, **message: Any) -> None:
        text = json.dumps(message).encode()
        self._writer.write(self._seal(0, text) + b" " + text + b"\n")

    async def receive(self) -> Message | None:
        """Return the next message; None: the other side is gone. Raises NotTrusted."""
        try:
            line = await self._reader.readline()
        except (OSError, ValueError):
            return None
        if not line.endswith(b"\n"):
            return None
        seal, text = line[:_HEX_SEAL], line[_HEX_SEAL + 1 : -1]
        if not hmac.compare_digest(seal, self._seal(1, text)):
            raise NotTrusted
        message: Message = json.loads(text)
        return message

    async def messages(self) -> AsyncIterator[Message]:
        """Yield messages until the other side is gone. Raises NotTrusted."""
        while (message := await self.receive()) is not None:
            yield message

    async def flush(self) -> None:
        """Wait until what was sent is on its way."""
        await self._writer.drain()

    async def close(self) -> None:
        self._writer.close()
        with contextlib.suppress(OSError):
            await self._writer.wait_closed()

    def _seal(self, direction: int, text: bytes) -> bytes:
        self._counts[direction] += 1
        place = self._sides[direction] + self._counts[direction].to_bytes(8, "big")
        return blake2b(place + text, key=self._key, digest_size=_HEX_SEAL // 2).hexdigest().encode()


async def connect(host: str, port: int, secret: str) -> Channel:
    """Return a channel to the head. Raises OSError, TimeoutError."""
    async with asyncio.timeout(GREETING_S):
        reader, writer = await asyncio.open_connection(host, port, limit=_MAX_LINE)
        own = secrets.token_bytes(_NONCE_BYTES)
        writer.write(own)
        try:
            other = await reader.readexactly(_NONCE_BYTES)
        except asyncio.IncompleteReadError as error:
            writer.close()
            raise ConnectionResetError("the other side ended the connection") from error
    return Channel(reader, writer, _session_key(secret, own, other), b"c", b"s")


async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, secret: str) -> Channel:
    """Return the head's side of a new connection. Raises OSError, TimeoutError, asyncio.IncompleteReadError."""
    async with asyncio.timeout(GREETING_S):
        own = secrets.token_bytes(_NONCE_BYTES)
        writer.write(own)
        other = await reader.readexactly(_NONCE_BYTES)
    return Channel(reader, writer, _session_key(secret, other, own), b"s", b"c")


async def listen(handle: Any, port: int) -> asyncio.Server:
    """Listen on the job's port at all addresses of the node. Raises OSError."""
    return await asyncio.start_server(handle, None, port, limit=_MAX_LINE, reuse_address=True)


def _session_key(secret: str, client: bytes, server: bytes) -> bytes:
    return blake2b(client + server, key=secret.encode(), digest_size=32).digest()
