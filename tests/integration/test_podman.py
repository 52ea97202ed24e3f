"""Podman's socket in the place of Docker's. Needs root, podman, runc and busybox."""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import docker
import pytest

from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.core.records.job import JobState
from gosched.core.records.task import TaskState
from gosched.core.spec.isolation import Isolation, Pull
from tests.integration.containers import NOBODY, DockerNode, make_rootfs
from tests.integration.daemons import import_image, podman_service
from tests.integration.support import PATIENCE_S, goschedctl, until


@pytest.fixture(scope="module")
def podman() -> Iterator[str]:
    base = Path(tempfile.mkdtemp(prefix="gosched-podman-"))
    try:
        rootfs = make_rootfs(base / "rootfs")
        with podman_service(base) as address:
            import_image(address, rootfs, "busy")
            yield address
    finally:
        shutil.rmtree(base)


@pytest.fixture
def node(podman: str, tmp_path: Path) -> Iterator[DockerNode]:
    with contextlib.closing(DockerNode(tmp_path, podman)) as node:
        yield node


def test_output_codes_signals_and_reasons_are_as_with_docker(node: DockerNode) -> None:
    done = node.run("sh", "-c", "hostname; echo err >&2; exit 7")
    assert done == (7, "j1-worker-0\n", "err\n"), done
    running = node.start("sh", "-c", "trap 'exit 3' TERM; echo up; while :; do sleep 0.05; done")
    running.await_output("up")
    running.signal(signal.SIGTERM)
    assert running.end()[0] == 3
    assert node.run("nothing-here")[0] == 127
    assert node.result()["reason"] == "COMMAND_NOT_FOUND"
    assert node.run("sh", image="none", isolation=Isolation(pull=Pull.NEVER))[0] == 125
    assert node.result()["reason"] == "IMAGE_NOT_FOUND"


def test_a_command_beside_a_task_is_in_its_container(node: DockerNode) -> None:
    running = node.start("sh", "-c", "echo up; exec sleep 600", account=NOBODY, env={"COLOUR": "blue"})
    running.await_output("up")
    script = "id -u; hostname; pwd; echo $COLOUR $SIZE; cat; echo problem >&2; exit 5"
    words = running.beside("sh", "-c", script, flags=("--env", "SIZE=big"))
    done = subprocess.run(words, input="typed\n", capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stderr) == (5, "problem\n")
    assert done.stdout.splitlines() == ["65534", "j1-worker-0", "/work", "blue big", "typed"]

    ours, theirs = os.openpty()
    words = running.beside("sh", "-c", "tty; read line; echo got $line; exit 6", flags=("--tty",))
    shell = subprocess.Popen(words, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True)
    _read_until(ours, b"/dev/pts/")
    os.write(ours, b"hello\r")
    _read_until(ours, b"got hello")
    assert shell.wait(PATIENCE_S) == 6
    for fd in (ours, theirs):
        os.close(fd)

    left = subprocess.Popen(running.beside("sh", "-c", "echo here; exec sleep 77"), stdout=subprocess.PIPE)
    assert left.stdout is not None
    assert left.stdout.readline() == b"here\n"
    left.send_signal(signal.SIGHUP)
    left.wait(PATIENCE_S)
    left.stdout.close()
    inside = subprocess.run(running.beside("ps"), capture_output=True, text=True, timeout=PATIENCE_S, check=True)
    assert "sleep 600" in inside.stdout
    assert "sleep 77" not in inside.stdout
    running.kill()
    running.end()


def _read_until(fd: int, what: bytes) -> None:
    seen, ends = b"", time.monotonic() + PATIENCE_S
    while what not in seen:
        ready, _, _ = select.select([fd], [], [], max(ends - time.monotonic(), 0))
        assert ready, f"{what!r} did not come: {seen!r}"
        seen += os.read(fd, 4096)


def test_a_job_on_podman_takes_commands_stands_still_goes_on_and_ends(podman: str) -> None:
    """A whole cluster: what a user does."""
    settings = {"docker_host": podman, "users": {"own": True}, "heartbeat": "500ms"}
    script = 'trap "exit 3" TERM; while :; do echo tick >> ticks; sleep 0.05; done'
    with LocalCluster(masters=1, agents=[AgentShape(settings=settings)]) as cluster, cluster.client() as client:

        def ticks() -> int:
            return sum(file.stat().st_size for file in cluster.data_dir.glob("agent-1/tasks/*/work/ticks"))

        def stands_still() -> None:
            assert goschedctl(cluster.endpoints, "job", "suspend", "stays").returncode == 0
            until(lambda: [c["State"]["Status"] for c in _inspected(podman)] == ["paused"], "it stands still")
            before = ticks()
            time.sleep(0.5)
            assert ticks() == before

        client.submit(f"name: stays\nimage: busy\nstop_grace: 60s\nresources: {{memory: 64Mi}}\nrun: '{script}'\n")
        until(lambda: client.get_job("stays").tasks[0].state is TaskState.RUNNING and ticks() > 0, "it runs")
        assert goschedctl(cluster.endpoints, "exec", "stays", "--", "hostname").stdout.endswith("task-0\n")
        stands_still()
        before = ticks()
        assert goschedctl(cluster.endpoints, "job", "resume", "stays").returncode == 0
        until(lambda: ticks() > before, "it goes on")
        stands_still()
        assert goschedctl(cluster.endpoints, "job", "cancel", "stays").returncode == 0
        done = client.wait("stays", timeout=PATIENCE_S)
    assert (done.state, done.tasks[0].exit_code) == (JobState.CANCELLED, 3), "it was thawed to say goodbye"
    assert _inspected(podman) == []


def _inspected(address: str) -> list[dict[str, Any]]:
    client = docker.APIClient(base_url=address, version="auto", timeout=60)
    found = [client.inspect_container(each["Id"]) for each in client.containers(all=True)]
    client.close()
    return found
