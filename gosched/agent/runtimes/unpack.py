"""Unpacks a tar archive, from stdin, into a directory that it has made its root: nothing in it can lead outside.

    python -I -S unpack.py DIRECTORY MAX_BYTES MAX_ENTRIES < ARCHIVE

A program of its own, as root: a thread of the agent cannot change its root. The one rule: nothing is imported and no
file is opened by name after chroot, but for what is unpacked. Devices are left out: a task gets those of its order.
Exit code 0; 1 with one line on stderr: the archive is no good; 2: the node cannot.
"""

from __future__ import annotations

import bz2  # noqa: F401  before chroot: tarfile imports them when it needs them
import gzip  # noqa: F401
import lzma
import os
import sys
import tarfile
import zlib

MAX_DEPTH = 256  # no image needs more, and what removes one later has a stack


class BadArchive(Exception):
    """One line that says what is wrong with it."""


def main(directory: str, max_bytes: int, max_entries: int) -> int:
    os.umask(0)
    try:
        os.chroot(directory)
        os.chdir("/")
        unpack(max_bytes, max_entries)
    except (BadArchive, tarfile.TarError, EOFError, KeyError, zlib.error, lzma.LZMAError) as error:
        print(str(error) or "it ends too early", file=sys.stderr)
        return 1
    except OSError as error:
        # Without a number: bz2 and gzip say so when the data are damaged.
        print(error, file=sys.stderr)
        return 1 if error.errno is None else 2
    return 0


def unpack(max_bytes: int, max_entries: int) -> None:
    total = entries = 0
    directories: list[tarfile.TarInfo] = []
    with tarfile.open(fileobj=sys.stdin.buffer, mode="r|*", errorlevel=1) as archive:
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
                directories.append(member)
            archive.members = []  # type: ignore[attr-defined]  # or they would all be kept
    # Last: a directory may forbid what comes later, and each new file changes its times.
    for member in reversed(directories):
        path = "/" + member.name.lstrip("/")
        if os.path.isdir(path) and not os.path.islink(path):
            os.chown(path, member.uid, member.gid)
            os.chmod(path, member.mode & 0o7777)
            os.utime(path, (member.mtime, member.mtime))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
