"""The format of archived logs: what went in comes out with its offsets, and damage is seen."""

from __future__ import annotations

import gzip
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gosched.archive.members import PIECE_BYTES, ArchivedPiece, DamagedArchive, Unpacker, pack


def packed(files: dict[int, bytes]) -> bytes:
    target = BytesIO()
    pack(((f"stdout-{base:020d}.log", BytesIO(data)) for base, data in files.items()), target)
    return target.getvalue()


def unpacked(data: bytes, step: int) -> list[ArchivedPiece]:
    unpacker = Unpacker()
    pieces = [piece for at in range(0, len(data), step) for piece in unpacker.feed(data[at : at + step])]
    unpacker.finish()
    return pieces


@given(st.lists(st.binary(max_size=3000), max_size=4), st.integers(0, 10**12), st.integers(1, 700))
def test_all_bytes_come_back_with_their_offsets_however_they_are_cut(parts: list[bytes], first: int, step: int) -> None:
    files, base = {}, first
    for part in parts:
        files[base] = part
        base += len(part) + 7  # as where a full disk left a gap
    data = packed(files)
    assert gzip.decompress(data) == b"".join(parts) if parts else data == b""
    whole = dict.fromkeys(files, b"")
    for piece in unpacked(data, step):
        start = max(b for b in files if b <= piece.offset and b + len(whole[b]) == piece.offset)
        whole[start] += piece.data
    assert whole == files


def test_a_bomb_comes_in_small_pieces() -> None:
    data = packed({0: bytes(50 * 1024 * 1024)})
    assert len(data) < 100_000
    unpacker = Unpacker()
    sizes = [len(piece.data) for piece in unpacker.feed(data)]
    assert max(sizes) <= PIECE_BYTES
    assert sum(sizes) == 50 * 1024 * 1024


@pytest.mark.parametrize("cut", [3, 30, -5, -1])
def test_an_object_that_ends_early_is_damaged(cut: int) -> None:
    data = packed({0: b"hello", 5: b"world" * 100})
    with pytest.raises(DamagedArchive, match="ends in the middle"):
        unpacked(data[:cut], 10)


@pytest.mark.parametrize("data", [b"x" * 1000, gzip.compress(b"no name") * 30, b"\x1f\x8b\x08\x08" + b"a" * 1000])
def test_what_no_agent_wrote_is_refused(data: bytes) -> None:
    with pytest.raises(DamagedArchive):
        unpacked(data, 1000)


def test_a_wrong_byte_is_seen() -> None:
    data = bytearray(packed({0: b"hello" * 100}))
    data[-6] ^= 1  # of the checksum
    with pytest.raises(DamagedArchive):
        unpacked(bytes(data), 1000)
