"""Orders that cannot be done: what makes each, and how it has to end."""

from __future__ import annotations

import tarfile
from collections.abc import Callable
from pathlib import Path

from tests.integration.containers import make_rootfs


def _script(ground: Path, name: str, content: bytes, mode: int = 0o755) -> str:
    path = ground / name
    path.write_bytes(content)
    path.chmod(mode)
    return str(path)


def _closed(ground: Path) -> str:
    (ground / "closed").mkdir(mode=0o700, exist_ok=True)
    return str(ground / "closed")


def some_rootfs(ground: Path) -> str:
    path = ground / "rootfs"
    return str(path if path.exists() else make_rootfs(path))


def _deep_archive(ground: Path) -> str:
    with tarfile.open(ground / "deep.tar", "w") as archive:
        for depth in range(1, 1500):
            member = tarfile.TarInfo("/".join("d" * depth))
            member.type, member.mode = tarfile.DIRTYPE, 0o755
            archive.addfile(member)
    return str(ground / "deep.tar")


def _empty_rootfs(ground: Path) -> str:
    (ground / "empty").mkdir(exist_ok=True)
    return str(ground / "empty")


LONG = "x" * (1 << 20)
Fields = dict[str, object]
BadOrder = Callable[[Path], tuple[tuple[str, ...], Fields]]

BAD_ORDERS: dict[str, tuple[BadOrder, tuple[str, int, str], str]] = {
    "no such command": (
        lambda g: (("no-such-command",), {}),
        ("FAILED", 127, "COMMAND_NOT_FOUND"),
        "no such command",
    ),
    "not executable": (
        lambda g: ((_script(g, "plain", b"echo hello\n", 0o644),), {}),
        ("FAILED", 126, "NOT_EXECUTABLE"),
        "Permission denied",
    ),
    "a directory": (lambda g: (("/etc",), {}), ("FAILED", 126, "NOT_EXECUTABLE"), "/etc"),
    "no program": (
        lambda g: ((_script(g, "garbage", bytes(range(256))),), {}),
        ("FAILED", 126, "NOT_EXECUTABLE"),
        "Exec format error",
    ),
    "no interpreter": (
        lambda g: ((_script(g, "script", b"#!/no/such/interpreter\n"),), {}),
        ("FAILED", 127, "COMMAND_NOT_FOUND"),
        "its interpreter does not exist",
    ),
    "a loop of interpreters": (
        lambda g: ((_script(g, "loop", f"#!{g}/loop\n".encode()),), {}),
        ("FAILED", 126, "NOT_EXECUTABLE"),
        "loop",
    ),
    "no working directory": (
        lambda g: (("true",), {"working_dir": "no/such"}),
        ("FAILED", 125, "BAD_WORKING_DIR"),
        "no/such: No such file",
    ),
    "a file for a working directory": (
        lambda g: (("true",), {"working_dir": "/etc/passwd"}),
        ("FAILED", 125, "BAD_WORKING_DIR"),
        "Not a directory",
    ),
    "a closed working directory": (
        lambda g: (("true",), {"working_dir": _closed(g)}),
        ("FAILED", 125, "BAD_WORKING_DIR"),
        "Permission denied",
    ),
    "no such user": (lambda g: (("true",), {"user": "ghost"}), ("FAILED", 125, "USER_NOT_FOUND"), "ghost"),
    "root": (lambda g: (("true",), {"user": "root"}), ("FAILED", 125, "USER_NOT_ALLOWED"), "root"),
    "a user who is not allowed": (lambda g: (("true",), {"user": "mail"}), ("FAILED", 125, "USER_NOT_ALLOWED"), "mail"),
    "a limit beyond the node's": (
        lambda g: (("true",), {"rlimits": [{"name": "nofile", "soft": 1 << 40, "hard": 1 << 40}]}),
        ("FAILED", 125, "LIMIT_NOT_ALLOWED"),
        "rlimits.nofile: it asks for",
    ),
    "more processes than the node gives": (
        lambda g: (("true",), {"pids": 4_000_000}),
        ("FAILED", 125, "LIMIT_NOT_ALLOWED"),
        "limits.pids: it asks for 4000000",
    ),
    "a place before all others": (
        lambda g: (("true",), {"rlimits": [{"name": "rtprio", "soft": 99, "hard": 99}]}),
        ("FAILED", 125, "LIMIT_NOT_ALLOWED"),
        "rlimits.rtprio",
    ),
    "memory that nobody counted": (
        lambda g: (("true",), {"memory_low_bytes": 1 << 40}),
        ("FAILED", 125, "LIMIT_NOT_ALLOWED"),
        "limits.memory_low",
    ),
    "a limit that does not exist": (
        lambda g: (("true",), {"rlimits": [{"name": "luck", "soft": 1, "hard": 1}]}),
        ("FAILED", 125, "BAD_LIMIT"),
        "luck",
    ),
    "a variable of a megabyte": (
        lambda g: (("/bin/true",), {"env": {"LONG": LONG}}),
        ("FAILED", 126, "TOO_LONG"),
        "Argument list too long",
    ),
    "a word of a megabyte": (
        lambda g: (("/bin/echo", LONG), {}),
        ("FAILED", 126, "TOO_LONG"),
        "Argument list too long",
    ),
    "too many words": (
        lambda g: (("/bin/echo", *["x" * 1000] * 2500), {}),
        ("FAILED", 126, "TOO_LONG"),
        "Argument list too long",
    ),
    "a zero byte": (lambda g: (("/bin/echo", "a\0b"), {}), ("FAILED", 125, "START_FAILED"), "null"),
    "a variable with = in its name": (
        lambda g: (("true",), {"env": {"A=B": "c"}}),
        ("FAILED", 125, "START_FAILED"),
        "environment variable name",
    ),
    "a missing rootfs": (
        lambda g: (("sh",), {"runtime": "rootfs", "image": str(g / "no-such-image")}),
        ("FAILED", 125, "IMAGE_NOT_FOUND"),
        "no-such-image",
    ),
    "a rootfs that is no archive": (
        lambda g: (("sh",), {"runtime": "rootfs", "image": _script(g, "text.tar", b"no archive " * 1000)}),
        ("FAILED", 125, "BAD_IMAGE"),
        "text.tar",
    ),
    "a rootfs deeper than a stack": (
        lambda g: (("sh",), {"runtime": "rootfs", "image": _deep_archive(g)}),
        ("FAILED", 125, "BAD_IMAGE"),
        "deeper than",
    ),
    "an empty rootfs": (
        lambda g: (("sh",), {"runtime": "rootfs", "image": _empty_rootfs(g)}),
        ("FAILED", 125, "BAD_IMAGE"),
        "no root filesystem",
    ),
    "a rootfs without the command": (
        lambda g: (("no-such-command",), {"runtime": "rootfs", "image": some_rootfs(g)}),
        ("FAILED", 127, "COMMAND_NOT_FOUND"),
        "no-such-command",
    ),
    "no Docker": (
        lambda g: (("true",), {"runtime": "docker", "image": "alpine"}),
        ("FAILED", 125, "RUNTIME_NOT_SUPPORTED"),
        "/nowhere/docker.sock",
    ),
}
