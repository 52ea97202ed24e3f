"""Keeps a cgroup's processes off devices that are not theirs: a small BPF program, attached to the cgroup, that the
kernel asks at each open and each mknod. It goes with the cgroup.

Invariant: it judges character devices of the majors that it was given, and allows everything else. Numbers and
records are those of linux/bpf.h.
"""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from collections.abc import Collection
from pathlib import Path

from gosched.agent.cgroups.files import CgroupError

Device = tuple[int, int]  # major and minor

_SYSCALL = {"x86_64": 321, "aarch64": 280}
_PROG_LOAD, _PROG_ATTACH = 5, 8  # commands of bpf(2)
_PROG_TYPE = 15  # BPF_PROG_TYPE_CGROUP_DEVICE
_ATTACH_TYPE = 6  # BPF_CGROUP_DEVICE
_ALLOW_MULTI = 2  # beside those of the cgroups above and below: all have to agree

_LOAD_WORD, _AND, _JUMP_UNLESS, _SET, _EXIT = 0x61, 0x54, 0x55, 0xB7, 0x95
_RESULT, _CONTEXT, _TYPE, _MAJOR, _MINOR = range(5)  # registers; the kernel fills the second, the first is the answer
_CHARACTER = 2

_libc = ctypes.CDLL(None, use_errno=True)


def confine(cgroup: Path, majors: Collection[int], allowed: Collection[Device]) -> None:
    """Let the cgroup's processes use, of the character devices with these majors, `allowed` alone. Raises
    CgroupError."""
    try:
        program = _load(_program(majors, allowed))
        try:
            _attach(cgroup, program)
        finally:
            os.close(program)
    except OSError as error:
        raise CgroupError(f"cannot filter the devices of {cgroup}: {error.strerror}") from error


def problem() -> str:
    """Return why this process cannot do so here; empty: it can, with cgroup v2."""
    try:
        os.close(_load(_program((), ())))
    except OSError as error:
        return f"no device filter (bpf: {error.strerror})"
    return ""


def _program(majors: Collection[int], allowed: Collection[Device]) -> bytes:
    """Return the program. Its result 1 means allowed."""
    judged = b""
    for major in sorted(majors):
        own = [_unless(_MINOR, minor, _ALLOW) for of, minor in sorted(allowed) if of == major]
        judged += _unless(_MAJOR, major, b"".join([*own, _DENY]))
    return b"".join(
        [
            _instruction(_LOAD_WORD, _TYPE, source=_CONTEXT),
            _instruction(_AND, _TYPE, value=0xFFFF),  # above it: whether to read, to write or to make it
            _instruction(_LOAD_WORD, _MAJOR, source=_CONTEXT, offset=4),
            _instruction(_LOAD_WORD, _MINOR, source=_CONTEXT, offset=8),
            _unless(_TYPE, _CHARACTER, judged),
            _ALLOW,
        ]
    )


def _unless(register: int, value: int, skipped: bytes) -> bytes:
    """Return a jump over `skipped`, which is for where the register has just this value."""
    return _instruction(_JUMP_UNLESS, register, offset=len(skipped) // 8, value=value) + skipped


def _instruction(code: int, register: int = 0, *, source: int = 0, offset: int = 0, value: int = 0) -> bytes:
    """Return an instruction as struct bpf_insn has it, 8 bytes."""
    return struct.pack("=BBhi", code, source << 4 | register, offset, value)


_ALLOW = _instruction(_SET, _RESULT, value=1) + _instruction(_EXIT)
_DENY = _instruction(_SET, _RESULT, value=0) + _instruction(_EXIT)


def _load(program: bytes) -> int:
    """Load the program and return its descriptor. Raises OSError."""
    code, terms = ctypes.create_string_buffer(program, len(program)), ctypes.create_string_buffer(b"GPL")
    attributes = struct.pack("=IIQQ", _PROG_TYPE, len(program) // 8, ctypes.addressof(code), ctypes.addressof(terms))
    return _bpf(_PROG_LOAD, attributes)


def _attach(cgroup: Path, program: int) -> None:
    directory = os.open(cgroup, os.O_RDONLY | os.O_DIRECTORY)
    try:
        _bpf(_PROG_ATTACH, struct.pack("=IIII", directory, program, _ATTACH_TYPE, _ALLOW_MULTI))
    finally:
        os.close(directory)


def _bpf(command: int, attributes: bytes) -> int:
    number = _SYSCALL.get(platform.machine())
    if number is None:
        raise OSError(0, f"not known for {platform.machine()}")
    result: int = _libc.syscall(ctypes.c_long(number), command, attributes, len(attributes))
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result
