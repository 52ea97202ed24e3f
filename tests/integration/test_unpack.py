"""Archives that are made to take the node's memory: each is refused as what it is, and took next to nothing.

Needs root, for chroot."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pytest

from gosched.agent.beneath import opened
from gosched.agent.runtimes import unpack
from gosched.agent.runtimes.images import MAX_BYTES, MAX_ENTRIES, Images
from gosched.agent.runtimes.interface import CannotRun
from tests.integration.containers import needs

MIB = 1 << 20
MAX_RSS = unpack.MAX_MEMORY
MEASURE = (
    "import resource, subprocess, sys; "
    "print(subprocess.call(sys.argv[1:]), resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
)

Parts = tuple[bytes | int, ...]


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE) -> bytes:
    member = tarfile.TarInfo(name)
    member.size, member.type = size, kind
    return member.tobuf(tarfile.USTAR_FORMAT)


def directory(name: str) -> bytes:
    member = tarfile.TarInfo(name)
    member.type = tarfile.DIRTYPE
    return member.tobuf(tarfile.GNU_FORMAT)


def record(number: int) -> bytes:
    """Of a PAX header, of a megabyte."""
    text = f" key{number}={'v' * (MIB - 4096)}\n"
    return f"{len(text) + 7:07d}{text}".encode()


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 512)


def many_records() -> Parts:
    """That hold for all files after them, so all are kept."""
    parts: list[bytes] = []
    for number in range(300):
        data = record(number)
        parts += [header("g", len(data), tarfile.XGLTYPE), padded(data), header(f"f{number}", 0)]
    return tuple(parts)


def negative() -> bytes:
    block = bytearray(header("less", 0))
    block[124:136] = b"\xff" * 12  # -1, in base 256
    block[148:156] = b" " * 8
    block[148:156] = f"{sum(block):06o}\0 ".encode()
    return bytes(block)


BOMBS: dict[str, tuple[Callable[[], Parts], str]] = {
    "a PAX header of 300 MB": (lambda: (header("x", 300 * MIB, tarfile.XHDTYPE), 300 * MIB), "a header of 314572800"),
    "a name of 300 MB": (lambda: (header("x", 300 * MIB, tarfile.GNUTYPE_LONGNAME), 300 * MIB), "a header of"),
    "a link of 300 MB": (lambda: (header("x", 300 * MIB, tarfile.GNUTYPE_LONGLINK), 300 * MIB), "a header of"),
    "300 MB of PAX records": (many_records, "more than 256 MiB of memory"),
    "headers of headers": (lambda: (header("x", 0, tarfile.XHDTYPE),) * 5000, "recursion"),
    "a negative size": (lambda: (negative(), 512), "less than no bytes"),
}


def write(path: Path, opener: Callable[..., IO[Any]], *parts: bytes | int) -> Path:
    with opener(path, "wb") as file:
        for part in parts:
            for _ in range(0 if isinstance(part, bytes) else part // MIB):
                file.write(bytes(MIB))
            file.write(part if isinstance(part, bytes) else bytes(part % MIB))
    return path


def unpacked(archive: Path, directory: Path) -> tuple[int, str, int]:
    """Exit code, the last words, and how much memory it had at its most."""
    directory.mkdir()
    words = [sys.executable, "-I", "-S", unpack.__file__, str(directory), str(MAX_BYTES), str(MAX_ENTRIES)]
    with archive.open("rb") as file:
        # By a small process of its own: what a child of this one had before its exec would count, too.
        done = subprocess.run(
            [sys.executable, "-I", "-S", "-c", MEASURE, *words], stdin=file, capture_output=True, env={}
        )
    code, memory = map(int, done.stdout.split())
    return code, done.stderr.decode(), memory << 10


@pytest.mark.parametrize("bomb", BOMBS)
def test_an_archive_that_wants_the_nodes_memory_is_refused_and_does_not_get_it(tmp_path: Path, bomb: str) -> None:
    needs()
    make, words = BOMBS[bomb]
    archive = write(tmp_path / "bomb.tar.gz", gzip.open, *make(), 1024)
    code, said, memory = unpacked(archive, tmp_path / "root")
    assert (code, words in said, said.count("\n")) == (1, True, 1), said
    assert memory < MAX_RSS


@pytest.mark.parametrize("opener", [gzip.open, bz2.open, lzma.open])
def test_a_file_that_was_pressed_to_nothing_passes_in_little_memory(
    tmp_path: Path, opener: Callable[..., IO[Any]]
) -> None:
    needs()
    archive = write(tmp_path / "zeros.tar", opener, header("zeros", 64 * MIB), 64 * MIB, 1024)
    code, said, memory = unpacked(archive, tmp_path / "root")
    assert (code, said) == (0, "")
    assert (tmp_path / "root" / "zeros").stat().st_size == 64 * MIB
    assert memory < MAX_RSS


def test_the_image_is_blamed_and_not_the_node_and_nothing_stays(tmp_path: Path) -> None:
    needs()
    archive = write(tmp_path / "b.tar.gz", gzip.open, header("x", 300 * MIB, tarfile.XHDTYPE), 300 * MIB, 1024)
    with opened(archive, os.O_RDONLY) as file, pytest.raises(CannotRun, match="a header of 314572800") as caught:
        Images(tmp_path / "images").unpacked(file, tmp_path)
    assert (caught.value.reason, caught.value.blames_node) == ("BAD_IMAGE", False)
    assert [path.suffix for path in (tmp_path / "images").iterdir()] == [".lock"]


def test_an_archive_of_directories_deeper_than_a_stack_by_links_is_removed(tmp_path: Path) -> None:
    """Each path is short; the links make them one."""
    needs()
    parts: list[bytes] = []
    for number in range(12):
        base = f"l{number - 1}" if number else "."
        parts += [directory("/".join([base, *["d"] * depth])) for depth in range(1, 200)]
        link = tarfile.TarInfo(f"l{number}")
        link.type, link.linkname = tarfile.SYMTYPE, "/".join([base, *["d"] * 199])
        parts.append(link.tobuf(tarfile.GNU_FORMAT))
    archive = write(tmp_path / "deep.tar", open, *parts, header("x", 300 * MIB, tarfile.XHDTYPE), 1024)
    with opened(archive, os.O_RDONLY) as file, pytest.raises(CannotRun, match="a header of"):
        Images(tmp_path / "images").unpacked(file, tmp_path)
    assert [path.suffix for path in (tmp_path / "images").iterdir()] == [".lock"]
