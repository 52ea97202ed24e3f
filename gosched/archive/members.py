"""The format of an archived stream: one gzip member (RFC 1952) for each of its files, with the file's name in the
member's header. `zcat` shows the text; the names tell the offsets, as the agent's own files do.

Invariant: whatever the bytes are, reading holds no more than a piece of them at a time.
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import BinaryIO

PIECE_BYTES = 64 * 1024
MAX_HEADER_BYTES = 256  # longer ones are not ours

_HEADER = re.compile(rb"\x1f\x8b\x08\x08.{6}(?:stdout|stderr)-(\d{1,20})\.log\0", re.DOTALL)  # a name, and nothing else


class DamagedArchive(ValueError):
    """One line for people: the object is not what an agent wrote."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchivedPiece:
    """Some bytes of a stream."""

    #: Of the first byte, from the start of the stream.
    offset: int
    data: bytes


def pack(files: Iterable[tuple[str, BinaryIO]], target: BinaryIO) -> None:
    """Write the files of one stream, each under its name, the oldest first. Raises OSError."""
    for name, file in files:
        with gzip.GzipFile(filename=name, mode="wb", fileobj=target, mtime=0) as member:
            while data := file.read(PIECE_BYTES):
                member.write(data)


class Unpacker:
    """Reads an object as it comes."""

    def __init__(self) -> None:
        self._rest = b""  # compressed, of the member's header or body
        self._body: zlib._Decompress | None = None  # None: the next member's header is not whole yet
        self._offset = 0

    def feed(self, data: bytes) -> Iterator[ArchivedPiece]:
        """Yield what these bytes bring. Raises DamagedArchive."""
        self._rest += data
        while self._rest:
            if self._body is None and not self._begin():
                return
            yield from self._read()

    def finish(self) -> None:
        """Raise DamagedArchive where the object ends in the middle of a member."""
        if self._rest or self._body is not None:
            raise DamagedArchive("it ends in the middle")

    def _begin(self) -> bool:
        """Return whether the next member's header was whole."""
        found = _HEADER.match(self._rest)
        if found is None:
            if len(self._rest) > MAX_HEADER_BYTES:
                raise DamagedArchive("it is not a log that an agent wrote")
            return False
        self._offset = int(found[1])
        self._body = zlib.decompressobj(wbits=31)  # which reads the header once more, and checks the sum at the end
        return True

    def _read(self) -> Iterator[ArchivedPiece]:
        """Yield the pieces of what is here of the member."""
        body = self._body
        assert body is not None
        while self._rest and not body.eof:
            try:
                piece = body.decompress(self._rest, PIECE_BYTES)
            except zlib.error as error:
                raise DamagedArchive(str(error)) from error
            self._rest = body.unconsumed_tail
            if piece:
                yield ArchivedPiece(offset=self._offset, data=piece)
                self._offset += len(piece)
        if body.eof:
            self._rest, self._body = body.unused_data, None
