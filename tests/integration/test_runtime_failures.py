"""Runtimes that fail by themselves: crun, runc, Docker and its registries; whose fault it is, and what follows.

Needs root, cgroup v2 (on a hybrid host without controllers, too), crun, runc, dockerd, containerd and busybox.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import shutil
import signal
import socket
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gosched.agent.runtimes import oci_bundle, rootfs
from gosched.agent.runtimes.docker import Docker
from gosched.agent.runtimes.interface import Place
from gosched.agent.runtimes.rootfs import Rootfs
from gosched.agent.supervisor.launch import Launch
from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.core.orders import TaskOrder
from gosched.core.records.node import NodeState
from gosched.core.records.task import TaskState
from gosched.core.spec.isolation import Isolation, Rlimit, Volume
from gosched.core.spec.task_group import Runtime
from tests.integration.containers import (
    EVERYWHERE,
    NOBODY,
    DockerNode,
    Node,
    make_place,
    make_rootfs,
    needs,
    order,
    start,
)
from tests.integration.daemons import docker_daemon, import_image
from tests.integration.image_registry import ImageRegistry, refusing, served
from tests.integration.support import PATIENCE_S, until

Config = dict[str, Any]


@pytest.fixture(scope="module")
def image() -> Iterator[Path]:
    needs("crun", "runc", "busybox")
    base = Path(tempfile.mkdtemp(prefix="gosched-image-"))
    base.chmod(0o755)  # for every user to pass through
    image = make_rootfs(base / "rootfs")
    (image / "closed").mkdir(mode=0o700)
    shutil.copy(image / "bin" / "busybox", image / "closed" / "tool")
    yield image
    shutil.rmtree(base)


def run(node: Node, *command: str, **more: object) -> tuple[int, dict[str, Any]]:
    """Exit code, and what the runtime says of the end."""
    running = node.start(*command, **more)  # type: ignore[arg-type]
    return running.end()[0], running.result()


# crun and runc


class Breaking:
    """A rootfs runtime beside which something breaks between the order and the start."""

    def __init__(self, runtime: Rootfs, break_it: Callable[[Path], object]) -> None:
        self.runtime = runtime
        self.break_it = break_it

    def problem(self) -> str:
        return self.runtime.problem()

    def launch(self, order: TaskOrder, place: Place, env: dict[str, str]) -> Launch:
        launch = self.runtime.launch(order, place, env)
        self.break_it(place.path / "oci")
        return launch


@pytest.fixture(params=["crun", "runc"])
def node(request: pytest.FixtureRequest, tmp_path: Path, image: Path) -> Iterator[Node]:
    """Its runtime may be broken, for it is a link of its own."""
    program = tmp_path / f"{request.param}-of-the-test"
    program.symlink_to(str(shutil.which(request.param)))
    with contextlib.closing(
        Node(tmp_path, Rootfs(str(program), tmp_path / "images", EVERYWHERE), Runtime.ROOTFS, image)
    ) as node:
        yield node


def _replace(file: Path, text: str) -> None:
    file.unlink()
    file.write_text(text)
    file.chmod(0o755)


def _cannot_join(config: Config) -> None:
    config["linux"]["namespaces"].append({"type": "network", "path": "/no/such/namespace"})


def _cannot_mount(config: Config) -> None:
    config["mounts"].append({"destination": "/x", "type": "no-such-fs", "source": "none", "options": []})


def _cannot_filter(config: Config) -> None:
    config["linux"]["seccomp"]["syscalls"].append({"names": ["read"], "action": "NO_SUCH_ACTION"})


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (_cannot_join, "/no/such/namespace"),
        (_cannot_mount, "o such device"),
        (_cannot_filter, "NO_SUCH_ACTION"),
        (lambda config: config.update(root={"path": "/nowhere"}), "nowhere"),
    ],
)
def test_a_runtime_that_cannot_make_the_container_blames_the_node_in_its_own_words(
    node: Node, monkeypatch: pytest.MonkeyPatch, change: Callable[[Config], None], says: str
) -> None:
    def changed(container: oci_bundle.Container) -> Config:
        config = oci_bundle.config(container)
        change(config)
        return config

    monkeypatch.setattr(rootfs, "config", changed)
    code, said = run(node, "true")
    assert (code, said["reason"], said["blames_node"]) == (125, "START_FAILED", True)
    assert says in said["detail"]
    assert "\n" not in said["detail"]


@pytest.mark.parametrize(
    ("break_it", "says"),
    [
        (lambda program: program.unlink(), "there is no program"),
        (lambda program: _replace(program, "#!/bin/sh\nexit 3\n"), "is in the log of the task"),
        (lambda program: _replace(program, "#!/bin/sh\nexit 0\n"), "ended with code 0"),
        (lambda program: _replace(program, "#!/bin/sh\nkill -SEGV $$\n"), "139"),
        (lambda program: _replace(program, "#!/no/such/interpreter\n"), "crun-of|runc-of"),
    ],
)
def test_a_runtime_that_vanished_or_is_broken_blames_the_node(
    node: Node, break_it: Callable[[Path], object], says: str
) -> None:
    assert isinstance(node.runtime, Rootfs)
    (program,) = node.base.glob("*-of-the-test")
    launch_then_break = Breaking(node.runtime, lambda bundle: break_it(program))
    whole = program.readlink()
    node.runtime = launch_then_break
    running = node.start("true")
    assert running.process.wait(PATIENCE_S) == 125
    said = running.result()
    assert (said["reason"], said["blames_node"]) == ("START_FAILED", True)
    assert re.search(says, said["detail"])
    program.unlink(missing_ok=True)
    program.symlink_to(whole)  # so that it can clean up


def test_a_root_that_cannot_be_mounted_blames_the_node(node: Node) -> None:
    assert isinstance(node.runtime, Rootfs)
    node.runtime = Breaking(node.runtime, lambda bundle: (bundle / "upper").rmdir())
    code, said = run(node, "true")
    assert (code, said["reason"], said["blames_node"]) == (125, "START_FAILED", True)
    assert "mount:" in said["detail"]


@pytest.mark.parametrize("code", [1, 2, 32, 125, 126, 127, 139, 255])
def test_an_exit_code_of_the_tasks_own_is_nobody_elses(node: Node, code: int) -> None:
    assert run(node, "sh", "-c", f"exit {code}") == (code, {})


@pytest.mark.parametrize(
    ("words", "more", "code", "reason"),
    [
        (["/closed/tool"], {"account": NOBODY}, 126, "NOT_EXECUTABLE"),
        (["true"], {"working_dir": "/etc/passwd"}, 125, "BAD_WORKING_DIR"),
        (["true"], {"isolation": Isolation(volumes=(Volume(host="/tmp", to="/etc/passwd"),))}, 125, "BAD_VOLUME"),
        (["true"], {"isolation": Isolation(volumes=(Volume(host="/tmp", to="/etc/passwd/x"),))}, 125, "BAD_VOLUME"),
        (["true"], {"isolation": Isolation(rlimits=(Rlimit(name="nofile", soft=9 << 30, hard=9 << 30),))}, 125, ""),
    ],
)
def test_an_order_that_the_runtime_refuses_keeps_its_reason_and_blames_nobody(
    node: Node, words: list[str], more: dict[str, object], code: int, reason: str
) -> None:
    if reason == "NOT_EXECUTABLE" and "crun" in node.runtime.launch.__self__._runtime:  # type: ignore[attr-defined]
        code, reason = 1, ""  # it has become the task when it finds out
    found, said = run(node, *words, **more)
    assert (found, said.get("reason", "")) == (code, reason or ("BAD_LIMIT" if code == 125 else ""))
    assert not said.get("blames_node")


def test_a_volume_that_vanishes_before_the_start_blames_nobody(node: Node, tmp_path: Path) -> None:
    (tmp_path / "volume").mkdir()
    assert isinstance(node.runtime, Rootfs)
    node.runtime = Breaking(node.runtime, lambda bundle: (tmp_path / "volume").rmdir())
    volumes = (Volume(host=str(tmp_path / "volume"), to="/mnt"),)
    code, said = run(node, "true", isolation=Isolation(volumes=volumes))
    assert (code, said["reason"], said["blames_node"]) == (125, "BAD_VOLUME", False)


def test_an_image_whose_proc_is_a_file_is_a_bad_image_not_a_bad_node(node: Node, tmp_path: Path) -> None:
    odd = make_rootfs(tmp_path / "odd")
    (odd / "proc").write_text("")
    code, said = run(node, "true", image=str(odd))
    assert (code, said["reason"], said["blames_node"]) == (125, "BAD_IMAGE", False)


def test_a_node_whose_runtime_fails_three_jobs_is_closed_and_says_why(tmp_path: Path, image: Path) -> None:
    """Through agent, supervisor and master; a task's own failure before does not count."""
    program = tmp_path / "crun-that-fails"
    program.symlink_to(str(shutil.which("crun")))
    settings = {"oci_runtime": str(program), "users": {"own": True}, "heartbeat": "500ms"}
    with LocalCluster(masters=1, agents=[AgentShape(settings=settings)]) as cluster, cluster.client() as client:

        def submit(name: str, run: str) -> Any:
            client.submit(f"name: {name}\nimage: {image}\nresources: {{memory: 64Mi}}\nrun: '{run}'\n")
            return client.wait(name, timeout=PATIENCE_S).tasks[0]

        own = submit("own", "exit 125")
        assert (own.state, own.reason, own.exit_code) == (TaskState.FAILED, "NONZERO_EXIT", 125)
        _replace(program, "#!/bin/sh\ncase \"$*\" in *' run '*) exit 1;; esac\n")
        for name in ("one", "two", "three"):
            task = submit(name, "true")
            assert (task.state, task.reason, task.exit_code) == (TaskState.FAILED, "START_FAILED", 125)
            assert "crun-that-fails ended with code 1" in task.detail
        until(lambda: client.list_nodes()[0].node.state is NodeState.CORDONED, "the node is closed")
        assert "START_FAILED" in client.list_nodes()[0].node.reason


# Docker and its registries


@pytest.fixture(scope="module")
def base() -> Iterator[Path]:
    base = Path(tempfile.mkdtemp(prefix="gosched-failures-"))
    try:
        make_rootfs(base / "rootfs")
        yield base
    finally:
        shutil.rmtree(base)


@pytest.fixture(scope="module")
def breakable(base: Path) -> Path:
    """While this file is there, the daemon's runc fails."""
    (base / "bin").mkdir()
    script = f'#!/bin/sh\n[ -e {base}/broken ] && exit 1\nexec {shutil.which("runc")} "$@"\n'
    (base / "bin" / "runc").write_text(script)
    (base / "bin" / "runc").chmod(0o755)
    return base / "broken"


@pytest.fixture(scope="module")
def daemon(base: Path, breakable: Path) -> Iterator[str]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{breakable.parent / 'bin'}:{os.environ['PATH']}")
        with docker_daemon(base) as address:
            import_image(address, base / "rootfs", "busy")
            yield address


@pytest.fixture
def docked(daemon: str, tmp_path: Path) -> Iterator[DockerNode]:
    with contextlib.closing(DockerNode(tmp_path, daemon)) as node:
        yield node


def test_a_daemon_whose_runc_fails_blames_the_node(docked: DockerNode, breakable: Path) -> None:
    breakable.touch()
    try:
        code, said = run(docked, "true")
    finally:
        breakable.unlink()
    assert (code, said["reason"], said["blames_node"]) == (125, "START_FAILED", True)
    assert "runc" in said["detail"]
    assert run(docked, "true")[0] == 0


@pytest.mark.parametrize(
    ("words", "more", "code", "reason"),
    [
        (["nothing-here"], {}, 127, "COMMAND_NOT_FOUND"),
        (["/etc/nothing"], {}, 127, "COMMAND_NOT_FOUND"),
        (["/etc/not-executable"], {}, 126, "NOT_EXECUTABLE"),
        (["true"], {"working_dir": "/etc/passwd"}, 125, "BAD_WORKING_DIR"),
        (["true"], {"isolation": Isolation(volumes=(Volume(host="/tmp", to="/etc/passwd"),))}, 125, "BAD_VOLUME"),
        (
            ["true"],
            {"isolation": Isolation(rlimits=(Rlimit(name="nofile", soft=9 << 30, hard=9 << 30),))},
            125,
            "BAD_LIMIT",
        ),
    ],
)
def test_an_order_that_the_daemon_refuses_keeps_its_reason_and_blames_nobody(
    docked: DockerNode, words: list[str], more: dict[str, object], code: int, reason: str
) -> None:
    found, said = run(docked, *words, **more)
    assert (found, said["reason"], said["blames_node"]) == (code, reason, False)


@pytest.mark.parametrize(
    ("status", "code", "reason"),
    [
        (404, "MANIFEST_UNKNOWN", "IMAGE_NOT_FOUND"),
        (401, "UNAUTHORIZED", "REGISTRY_REFUSED"),
        (403, "DENIED", "REGISTRY_REFUSED"),
        (429, "TOOMANYREQUESTS", "REGISTRY_REFUSED"),
        (503, "UNAVAILABLE", "REGISTRY_UNREACHABLE"),
    ],
)
def test_what_a_registry_answers_is_told_apart(docked: DockerNode, status: int, code: str, reason: str) -> None:
    with refusing(status, code) as address:
        found, said = run(docked, "true", image=f"{address}/team/tool:1")
    assert (found, said["reason"], said["blames_node"]) == (125, reason, False)
    assert f"{address}/team/tool:1" in said["detail"]
    assert "\n" not in said["detail"]


def test_a_registry_that_cannot_be_reached_is_no_missing_image(docked: DockerNode) -> None:
    with socket.socket() as mute:
        mute.bind(("127.0.0.1", 0))  # nobody listens
        closed = f"127.0.0.1:{mute.getsockname()[1]}"
        for registry in (closed, "no-such-registry.invalid"):
            code, said = run(docked, "true", image=f"{registry}/team/tool:1")
            assert (code, said["reason"], said["blames_node"]) == (125, "REGISTRY_UNREACHABLE", False)
            assert "check the registry" in said["detail"]


@pytest.fixture
def registry(base: Path, tmp_path: Path) -> Iterator[tuple[ImageRegistry, str]]:
    found = ImageRegistry(base / "rootfs", tmp_path)
    with served(found) as address:
        yield found, address


def test_eight_tasks_that_need_an_image_fetch_it_once(docked: DockerNode, registry: tuple[ImageRegistry, str]) -> None:
    source, address = registry
    started = [docked.start("true", image=f"{address}/shared:1") for _ in range(8)]
    until(lambda: source.asked("tag") >= 8, "all eight wait for it")
    source.open.set()
    assert [running.end(PATIENCE_S)[0] for running in started] == [0] * 8
    assert source.asked("layer") == 1


@pytest.mark.parametrize(
    ("limits", "says"),
    [
        ({"PULL_S": 1, "PULL_LIMIT_S": 3600}, "nothing was heard of it for 1 s"),
        ({"PULL_S": 3600, "PULL_LIMIT_S": 1}, "it takes more than 1 s"),
    ],
)
def test_a_pull_that_hangs_or_takes_too_long_ends_and_says_so(
    docked: DockerNode, registry: tuple[ImageRegistry, str], limits: dict[str, int], says: str
) -> None:
    """The launcher itself, with less patience."""
    source, address = registry
    inner = docked.runtime

    class Hurried:
        def problem(self) -> str:
            return inner.problem()

        def launch(self, order: TaskOrder, place: Place, env: dict[str, str]) -> Launch:
            launch = inner.launch(order, place, env)
            program = "import sys; from gosched.agent.runtimes import docker_launcher as it; "
            program += f"vars(it).update({limits}); sys.exit(it.main())"
            return dataclasses.replace(launch, command=(sys.executable, "-I", "-c", program, *launch.command[4:]))

    wanted = order("true", runtime=Runtime.DOCKER, image=f"{address}/slow:1")
    running = start(Hurried(), wanted, make_place(docked.base, wanted))
    docked.started.append(running)
    assert running.process.wait(PATIENCE_S) == 125
    assert source.asked("layer") == 1
    said = running.result()
    assert (said["reason"], said["blames_node"]) == ("PULL_FAILED", False)
    assert says in said["detail"]


def test_a_daemon_that_dies_while_a_task_starts_blames_the_node(
    base: Path, tmp_path: Path, registry: tuple[ImageRegistry, str]
) -> None:
    source, address = registry
    (base / "dies").mkdir()
    with docker_daemon(base / "dies") as host:
        node = Node(tmp_path, Docker(host, {}, pids_max=4096, paths=EVERYWHERE), Runtime.DOCKER, "busy")
        running = node.start("true", image=f"{address}/never:1")
        until(lambda: source.asked("layer"), "the daemon fetches it")
        os.kill(int((base / "dies" / "pid").read_text()), signal.SIGKILL)
        assert running.process.wait(PATIENCE_S) == 125
        said = running.result()
        assert (said["reason"], said["blames_node"]) == ("DOCKER_FAILED", True)
        again = node.start("true", image="busy")
        assert again.process.wait(PATIENCE_S) == 125
        said = again.result()
        assert (said["reason"], said["blames_node"]) == ("DOCKER_FAILED", True)
        assert "no answer from the daemon" in said["detail"]
        for each in (running, again):
            assert each.place.cgroup is not None
            each.place.cgroup.rmdir()
