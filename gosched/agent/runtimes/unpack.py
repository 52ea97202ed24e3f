"""Unpacks a tar archive, from stdin, into a directory that it has made its root: nothing in it can lead outside.

    python -I -S unpack.py DIRECTORY MAX_BYTES MAX_ENTRIES < ARCHIVE

A program of its own, as root: a thread of the agent cannot change its root. Invariant: nothing is imported and no file
is opened by name after chroot, but for what is unpacked; whatever the archive says, this process takes no more memory
than MAX_MEMORY. Devices are left out: a task gets those of its order.
Exit code 0; 1 with one line on stderr: the archive is no good; 2: the node cannot.
"""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import resource
import sys
import tarfile
from typing import Any

MAX_DEPTH = 256  # no image needs more
MAX_HEADER = 1 << 20  # of a long name or of PAX records, which are read as a whole
MAX_MEMORY = 256 << 20  # address space: an interpreter, and what xz at its best (64 MiB) needs to unpack
BLOCK = 64 * 1024  # of the uncompressed archive

_EXTENDED = (
    tarfile.XHDTYPE,
    tarfile.XGLTYPE,
    tarfile.SOLARIS_XHDTYPE,
    tarfile.GNUTYPE_LONGNAME,
    tarfile.GNUTYPE_LONGLINK,
)


class BadArchive(Exception):
    """One line that says what is wrong with the archive."""


class Member(tarfile.TarInfo):
    """A header of an archive that was not checked yet."""

    def _proc_member(self, archive: Any) -> Any:
        """Check the header. tarfile calls it for each, before it reads what the header says that follows."""
        if self.size < 0:
            raise BadArchive("it has a file of less than no bytes")
        if self.type in _EXTENDED and self.size > MAX_HEADER:
            raise BadArchive(f"it has a header of {self.size} bytes; at most {MAX_HEADER}")
        return super()._proc_member(archive)  # type: ignore[misc]


def main(directory: str, max_bytes: int, max_entries: int) -> int:
    os.umask(0)
    try:
        os.chroot(directory)
        os.chdir("/")
        resource.setrlimit(resource.RLIMIT_AS, (MAX_MEMORY, MAX_MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        unpack(max_bytes, max_entries)
    except MemoryError:
        why = f"to unpack it takes more than {MAX_MEMORY >> 20} MiB of memory"
    except OSError as error:
        # Without a number: bz2 and gzip say so when the data are damaged.
        print(error, file=sys.stderr)
        return 1 if error.errno is None else 2
    except Exception as error:  # tarfile was written for archives that mean well
        why = str(error) or "it ends too early"
    else:
        return 0
    print(why, file=sys.stderr)
    return 1


def decompressed(file: Any) -> Any:
    """Return a stream that makes no more of the file at once than is read. tarfile's own makes all that a block of the
    file may become, which for bzip2 is a hundred thousand times as much, and copies the rest at each read."""
    head = file.peek(6)
    if head.startswith(b"\x1f\x8b"):
        return gzip.GzipFile(fileobj=file)
    if head.startswith(b"BZh"):
        return bz2.BZ2File(file)
    if head.startswith((b"\xfd7zXZ", b"\x5d\x00\x00\x80")):
        return lzma.LZMAFile(file)
    return file


def unpack(max_bytes: int, max_entries: int) -> None:
    total = entries = 0
    directories: list[tuple[str, int, int, int, float]] = []
    stream = decompressed(sys.stdin.buffer)
    with tarfile.open(fileobj=stream, mode="r|", bufsize=BLOCK, errorlevel=1, tarinfo=Member) as archive:
        # chroot is the filter: owners, modes and links stay as they are, a root filesystem needs them. Old Pythons have
        # no filters at all.
        archive.extraction_filter = getattr(tarfile, "fully_trusted_filter", None)
        for member in archive:
            entries, total = entries + 1, total + member.size
            if entries > max_entries or total > max_bytes:
                raise BadArchive(f"it holds more than {max_entries} files or {max_bytes >> 30} GiB")
            if member.name.count("/") > MAX_DEPTH:
                raise BadArchive(f"it has directories deeper than {MAX_DEPTH}")
            if member.isdev() and not member.isfifo():
                continue
            archive.extract(member, "/", set_attrs=not member.isdir(), numeric_owner=True)
            if member.isdir():
                # Its few numbers, and not the member, which has all of its headers.
                directories.append((member.name, member.uid, member.gid, member.mode, member.mtime))
            archive.members = []  # type: ignore[attr-defined]  # or they would all be kept
    # Last: a directory may forbid what comes later, and each new file changes its times.
    for name, uid, gid, mode, mtime in reversed(directories):
        path = "/" + name.lstrip("/")
        if os.path.isdir(path) and not os.path.islink(path):
            os.chown(path, uid, gid)
            os.chmod(path, mode & 0o7777)
            os.utime(path, (mtime, mtime))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
