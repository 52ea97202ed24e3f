"""What a rootfs task is given, and where a path of its own is on the node; nothing runs here."""

from __future__ import annotations

import contextlib
import os
import struct
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gosched.agent.beneath import opened
from gosched.agent.host_paths import path_of
from gosched.agent.runtimes import faults
from gosched.agent.runtimes.inside import Bind, binds, inner_cwd, inner_env
from gosched.agent.runtimes.interface import CannotRun, Place
from gosched.agent.runtimes.lookup import Root, _find_interpreter, find_command, resolve
from gosched.agent.runtimes.names import container_name, hostname
from gosched.agent.runtimes.oci_bundle import Container, Device, config
from gosched.agent.supervisor.launch import Account
from gosched.core.orders import TaskOrder
from gosched.core.spec.isolation import PLAIN, Isolation, Network, Rlimit, Volume

ALLOWED = ("/",)
ACCOUNT = Account(uid=1000, gid=100, groups=(27,), name="me", home="/home/me")


def make_order(**more: object) -> TaskOrder:
    ids = {"allocation_id": "j1/worker/0.1", "task_id": "j1/worker/0", "job_id": "j1"}
    return TaskOrder(**{**ids, **more})  # type: ignore[arg-type]


def make_place(path: Path) -> Place:
    return Place(path=path, work=path / "work", cgroup=None, account=None)


def make_container(**more: object) -> Container:
    given = {
        "command": ("sh",),
        "env": {"A": "b"},
        "cwd": "/work",
        "hostname": "h",
        "isolation": PLAIN,
        "account": ACCOUNT,
        "binds": (Bind(host="/n/work", to="/work"),),
        "devices": (),
        "shm_bytes": 1 << 20,
        "cgroups_path": "",
        "cgroup_view": False,
        "architecture": "x86_64",
    }
    return Container(**{**given, **more})  # type: ignore[arg-type]


def test_a_task_of_a_user_has_no_capabilities_and_root_has_few() -> None:
    process = config(make_container())["process"]
    assert process["user"] == {"uid": 1000, "gid": 100, "additionalGids": [27], "umask": 0o022}
    assert process["noNewPrivileges"] is True
    assert set(map(tuple, process["capabilities"].values())) == {()}
    of_root = config(make_container(account=None))["process"]["capabilities"]["effective"]
    assert "CAP_CHOWN" in of_root
    assert not {"CAP_SYS_ADMIN", "CAP_NET_RAW", "CAP_MKNOD", "CAP_SYS_CHROOT", "CAP_SYS_PTRACE"} & set(of_root)


def test_namespaces_follow_the_order() -> None:
    def kinds(**more: object) -> set[str]:
        return {each["type"] for each in config(make_container(**more))["linux"]["namespaces"]}

    assert kinds() == {"pid", "mount", "uts", "ipc"}
    assert kinds(isolation=Isolation(network=Network.NONE)) - kinds() == {"network"}
    assert kinds(cgroup_view=True) - kinds() == {"cgroup"}


def test_limits_devices_and_mounts_are_those_of_the_order() -> None:
    isolation = Isolation(
        umask=0o077,
        read_only=True,
        rlimits=(Rlimit(name="core", soft=0, hard=-1), Rlimit(name="nofile", soft=1, hard=2)),
    )
    gpu = Device(path="/dev/nvidia3", major=195, minor=3)
    made = config(make_container(isolation=isolation, devices=(gpu,), cgroups_path="/a/task"))
    assert made["root"] == {"path": "rootfs", "readonly": True}
    assert made["process"]["user"]["umask"] == 0o077
    assert made["process"]["rlimits"] == [
        {"type": "RLIMIT_CORE", "soft": 0, "hard": 2**64 - 1},
        {"type": "RLIMIT_NOFILE", "soft": 1, "hard": 2},
    ]
    assert [(d["path"], d["major"], d["minor"]) for d in made["linux"]["devices"]] == [("/dev/nvidia3", 195, 3)]
    assert made["linux"]["cgroupsPath"] == "/a/task"
    assert "size=1048576" in next(m for m in made["mounts"] if m["destination"] == "/dev/shm")["options"]
    assert made["mounts"][-1]["source"] == "/n/work"


def test_an_environment_names_what_is_inside(tmp_path: Path) -> None:
    place = make_place(tmp_path)
    env = {
        "PATH": "/opt/node/bin",
        "HOME": "/root",
        "LANG": "C",
        "CHECK": f"{place.work}/.c",
        "NOT": f"{place.work}er",
        "MINE": "1",
    }
    assert inner_env(make_order(env=(("MINE", "1"),)), place, env, path="/bin") == {
        "PATH": "/bin",
        "LANG": "C",
        "CHECK": "/work/.c",
        "NOT": f"{place.work}er",
        "MINE": "1",
    }
    asked = make_order(env=(("HOME", "/h"), ("PATH", "/p")))
    assert inner_env(asked, place, {"PATH": "/p", "HOME": "/h"}, path="") == {"PATH": "/p", "HOME": "/h"}


def test_a_relative_working_directory_is_below_the_tasks_own() -> None:
    assert inner_cwd(make_order()) == "/work"
    assert inner_cwd(make_order(working_dir="a/b")) == "/work/a/b"
    assert inner_cwd(make_order(working_dir="/app")) == "/app"


def test_volumes_stand_where_a_task_has_nothing_of_its_own(tmp_path: Path) -> None:
    def bound(to: str, host: str = str(tmp_path)) -> list[Bind]:
        order = make_order(isolation=Isolation(volumes=(Volume(host=host, to=to, read_only=True),)))
        return binds(order, make_place(tmp_path), ALLOWED)

    assert bound("/data/")[1:] == [Bind(host=str(tmp_path), to="/data", read_only=True)]
    for to in ("/", "/proc", "/proc/self", "/x/../sys/fs", "/dev", "/work"):
        with pytest.raises(CannotRun, match="cannot stand"):
            bound(to)
    with pytest.raises(CannotRun, match="not on this node"):
        bound("/data", host=str(tmp_path / "none"))


@pytest.fixture
def image(tmp_path: Path) -> Path:
    image = tmp_path / "image"
    (image / "usr" / "bin").mkdir(parents=True)
    (image / "bin").symlink_to("usr/bin")
    (image / "usr" / "bin" / "busybox").write_text("#!\n")
    (image / "usr" / "bin" / "busybox").chmod(0o755)
    (image / "usr" / "bin" / "sh").symlink_to("/bin/busybox")
    (image / "usr" / "bin" / "data").write_text("")
    (image / "usr" / "bin" / "loop").symlink_to("loop")
    (image / "usr" / "bin" / "out").symlink_to("../../../../../../../../etc/passwd")
    return image


Look = Callable[..., list[Root]]


@pytest.fixture
def look() -> Iterator[Look]:
    """Opens what a task would see: places by the paths at which they stand."""
    with contextlib.ExitStack() as held:
        yield lambda **places: [
            Root(to="/" if to == "_" else f"/{to.replace('__', '/')}", fd=held.enter_context(opened(path)))
            for to, path in places.items()
        ]


def path_there(path: str, roots: list[Root]) -> Path | None:
    found = resolve(path, roots)
    return Path(path_of(found.root.fd)) / found.path if found is not None else None


def test_links_are_followed_as_the_task_would(tmp_path: Path, image: Path, look: Look) -> None:
    (only,) = look(_=image)
    assert path_there("/bin/sh", [only]) == image / "usr" / "bin" / "busybox"
    assert resolve("/bin/loop", [only]) is None
    assert resolve("/bin/out", [only]) is None, "of the image, not of the node"
    volume = tmp_path / "volume"
    (volume / "deep").mkdir(parents=True)
    (volume / "deep" / "tool").write_text("")
    roots = look(_=image, mnt=volume, mnt__over=tmp_path, nowhere__file=volume / "deep" / "tool")
    assert path_there("/mnt/deep/tool", roots) == volume / "deep" / "tool"
    assert path_there("/mnt/over/image/bin/data", roots) == tmp_path / "image" / "usr" / "bin" / "data"
    assert path_there("/nowhere/file", roots) == volume / "deep" / "tool"


def test_a_command_is_looked_for_in_the_image(image: Path, look: Look) -> None:
    roots = look(_=image)
    find_command(["sh", "-c", "x"], "/work", "/nothing:/bin", roots)
    find_command(["./sh"], "/usr/bin", "", roots)
    for name, reason in (("python", "COMMAND_NOT_FOUND"), ("data", "NOT_EXECUTABLE"), ("/usr", "NOT_EXECUTABLE")):
        with pytest.raises(CannotRun) as caught:
            find_command([name], "/work", "/bin", roots)
        assert caught.value.reason == reason


def test_a_program_that_its_user_swaps_for_a_pipe_holds_no_start_up(image: Path, look: Look) -> None:
    """The kernel says what it is, when it is started."""
    roots = look(_=image)
    program = resolve("/bin/busybox", roots)
    assert program is not None
    (image / "usr" / "bin" / "busybox").unlink()
    os.mkfifo(image / "usr" / "bin" / "busybox")
    _find_interpreter("busybox", program, "/", roots)


ELF = b"\x7fELF" + bytes(60)


@pytest.mark.parametrize(
    ("content", "reason", "names"),
    [
        (b"#! /bin/sh -e\nexit", "", ""),
        (b"#!../bin/sh", "", ""),
        (b"#!\n", "", ""),
        (b"#!/bin/python3\r\n", "COMMAND_NOT_FOUND", "/bin/python3"),
        (b"#!/usr/bin/env\n", "COMMAND_NOT_FOUND", "/usr/bin/env"),
        (b"", "NOT_EXECUTABLE", "/tool"),
        (b"echo hello\n", "NOT_EXECUTABLE", "/tool"),
        (ELF, "", ""),
        (ELF[:9], "", ""),
        (ELF[:4], "", ""),
        (b"\x7fELF\x02\x01" + b"\xff" * 60, "", ""),
        (
            b"\x7fELF\x02\x01"
            + b"\0" * 26
            + struct.pack("<QQIHHH", 64, 0, 0, 64, 56, 1)
            + struct.pack("<IIQ", 3, 4, 2**64 - 1)
            + b"\xff" * 64,
            "",
            "",
        ),
        (b"#!/bin/\xff\x00\xe4", "COMMAND_NOT_FOUND", "\ufffd"),
        (b"#!" + b"x" * 9000, "COMMAND_NOT_FOUND", "xxx"),
        (Path(sys.executable).read_bytes()[:8192], "COMMAND_NOT_FOUND", "/ld-"),
    ],
)
def test_what_runs_a_program_has_to_be_in_the_image_too(
    image: Path, look: Look, content: bytes, reason: str, names: str
) -> None:
    (image / "tool").write_bytes(content)
    (image / "tool").chmod(0o755)
    if not reason:
        find_command(["/tool"], "/bin", "", look(_=image))
        return
    with pytest.raises(CannotRun) as caught:
        find_command(["/tool"], "/bin", "", look(_=image))
    assert (caught.value.reason, names in caught.value.detail) == (reason, True)
    assert len(caught.value.detail.encode()) < 5000, "as a message can carry it"


def test_names_are_readable_short_and_the_allocations_own() -> None:
    assert hostname("J_1/worker/12") == "j-1-worker-12"
    assert hostname("/") == "task"
    assert len(hostname("x" * 500)) == 63
    names = {container_name(allocation) for allocation in ("a/b/0.1", "a/b/0.2", "a-b/0.1")}
    assert len(names) == 3
    assert all(name.startswith("gosched-a-b-0-") for name in names)


IN_INIT = "runc run failed: unable to start container process: error during container init: "


@pytest.mark.parametrize(
    ("said", "reason", "code"),
    [
        ("executable file `nope` not found in $PATH: No such file or directory", "COMMAND_NOT_FOUND", 127),
        ('runc create failed: exec: "nope": executable file not found in $PATH: unknown', "COMMAND_NOT_FOUND", 127),
        ('exec: "/etc/no": stat /etc/no: no such file or directory', "COMMAND_NOT_FOUND", 127),
        ("open executable: Permission denied", "NOT_EXECUTABLE", 126),
        ('exec: "/root/tool": stat /root/tool: permission denied', "NOT_EXECUTABLE", 126),
        ("chdir `/sub/dir`: Not a directory", "BAD_WORKING_DIR", 125),
        (IN_INIT + "mkdir /sub/dir: not a directory", "BAD_WORKING_DIR", 125),
        ("setrlimit `RLIMIT_NOFILE`: Operation not permitted", "BAD_LIMIT", 125),
        ("error stat'ing file `/disk`: No such file or directory", "BAD_VOLUME", 125),
        ("mount `/disk` to `data`: Not a directory", "BAD_VOLUME", 125),
        (IN_INIT + 'error mounting "/disk" to rootfs at "/data": not a directory', "BAD_VOLUME", 125),
        ("the target `/proc` is invalid: Not a directory", "BAD_IMAGE", 125),
    ],
)
def test_what_a_runtime_says_of_an_order_blames_nobody(said: str, reason: str, code: int) -> None:
    fault = faults.of_runtime(said, cwd="/sub/dir", volumes=("/disk", "/data"))
    assert (fault.reason, fault.exit_code, fault.blames_node) == (reason, code, False)


@pytest.mark.parametrize(
    "said",
    [
        "open `/no/namespace`: No such file or directory",
        "mount `proc` to `proc`: Operation not permitted",
        "clone: No space left on device",
        "make `rootfs` private: No such file or directory",
        'unable to retrieve OCI runtime error (log.json): exec: "runc": executable file not found in $PATH: unknown',
        'failed to start shim: exec: "containerd-shim-runc-v2": executable file not found in $PATH',
        "seccomp: config provided but seccomp not supported",
    ],
)
def test_what_else_a_runtime_says_blames_the_node(said: str) -> None:
    fault = faults.of_runtime(said, cwd="/work", volumes=())
    assert (fault.exit_code, fault.blames_node) == (125, True)
    assert said in fault.detail
