"""What the kernel needs to run a file, by the file's first bytes.

Invariant: a file is called wrong only if the kernel would say so; what cannot be told is left to it.
"""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import BinaryIO

from gosched.agent.runtimes.interface import CannotRun
from gosched.core.reasons import Reason

_BINFMT = Path("/proc/sys/fs/binfmt_misc")  # formats that were registered beside the kernel's own
_SEGMENTS = 64
_INTERP = 3  # PT_INTERP
_MAX_PATH = 4096

# Of an ELF file of 64 or 32 bits: where e_phoff stands, e_phentsize with e_phnum; and of a segment p_offset, p_filesz.
_WIDE = ("Q", 32, 54, 8, 32)
_NARROW = ("I", 28, 42, 4, 16)


def interpreter(name: str, file: BinaryIO) -> str:
    """Return the path of what the kernel starts for it: a script's interpreter, or a dynamic program's loader. Empty:
    it needs none. `name`: as the task calls it. Raises CannotRun: NOT_EXECUTABLE."""
    try:
        head = file.read(_MAX_PATH)
        if head.startswith(b"#!"):
            words = head[2:].split(b"\n", 1)[0].split()
            return os.fsdecode(words[0]) if words else ""
        if head.startswith(b"\x7fELF"):
            return _loader(head, file)
    except (OSError, OverflowError, struct.error):  # it is for the kernel to say what is wrong with it
        return ""
    if _has_other_formats():
        return ""
    raise CannotRun(Reason.NOT_EXECUTABLE, f"{name} is no program and no script with a #! line", exit_code=126)


def _loader(head: bytes, file: BinaryIO) -> str:
    width, endian = struct.unpack_from("BB", head, 4)
    order = "<" if endian == 1 else ">"
    word, table_at, sizes_at, offset_at, length_at = _WIDE if width == 2 else _NARROW
    (table,) = struct.unpack_from(order + word, head, table_at)
    size, count = struct.unpack_from(order + "HH", head, sizes_at)
    for number in range(min(count, _SEGMENTS)):
        segment = table + number * size
        if struct.unpack_from(order + "I", head, segment)[0] == _INTERP:
            (offset,) = struct.unpack_from(order + word, head, segment + offset_at)
            (length,) = struct.unpack_from(order + word, head, segment + length_at)
            file.seek(offset)
            return os.fsdecode(file.read(min(length, _MAX_PATH)).rstrip(b"\0"))
    return ""


def _has_other_formats() -> bool:
    try:
        return bool(set(os.listdir(_BINFMT)) - {"register", "status"})
    except FileNotFoundError:
        return False
