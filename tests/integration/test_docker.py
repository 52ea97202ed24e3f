"""Tasks in Docker containers, with a daemon of the tests' own: what they see, how they end, what is left of them.

Needs root, dockerd, containerd, runc and busybox.
"""

from __future__ import annotations

import contextlib
import fcntl
import io
import json
import os
import shutil
import signal
import struct
import subprocess
import tempfile
import termios
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import docker
import pytest

from gosched.agent.runtimes.docker import Docker, remove_orphans
from gosched.agent.runtimes.interface import CannotRun
from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.config.agent_settings import Registry
from gosched.core.records.job import JobState
from gosched.core.records.task import TaskState
from gosched.core.resources import Resources
from gosched.core.spec.isolation import Isolation, Network, Pull, Rlimit, Volume
from gosched.core.spec.task_group import Runtime
from tests.integration.containers import (
    EVERYWHERE,
    NOBODY,
    DockerNode,
    Running,
    exec_once_adopted,
    make_place,
    make_rootfs,
    order,
)
from tests.integration.daemons import Gate, docker_daemon, import_image
from tests.integration.image_registry import refusing
from tests.integration.support import PATIENCE_S, PATIENT, goschedctl, until

EXAMPLES = Path(__file__).parents[2] / "examples"
MIB = 1 << 20
HUNGRY = "sleep 1; exec dd if=/dev/zero of=/dev/shm/x bs=1M count=300"


@pytest.fixture(scope="module")
def daemon() -> Iterator[str]:
    base = Path(tempfile.mkdtemp(prefix="gosched-docker-"))
    try:
        rootfs = make_rootfs(base / "rootfs")
        with docker_daemon(base) as address:
            import_image(address, rootfs, "busy")
            recipe = b'FROM busy\nSTOPSIGNAL SIGQUIT\nCMD ["sh", "-c", "echo of the image"]\n'
            client = docker.APIClient(base_url=address, version="auto")
            list(client.build(fileobj=io.BytesIO(recipe), tag="quit", rm=True))
            client.close()
            yield address
    finally:
        shutil.rmtree(base)


@pytest.fixture
def node(daemon: str, tmp_path: Path) -> Iterator[DockerNode]:
    with contextlib.closing(DockerNode(tmp_path, daemon)) as node:
        yield node


def test_output_and_exit_code_are_the_tasks_own(node: DockerNode) -> None:
    code, out, err = node.run("sh", "-c", "ps; hostname; pwd; echo to-stderr >&2; exit 7")
    assert code == 7
    assert out.splitlines()[1].split()[0] == "1"
    assert out.splitlines()[-2:] == ["j1-worker-0", "/work"]
    assert err == "to-stderr\n"
    task = json.loads((node.started[0].place.path / "task.json").read_text())
    assert set(task) == {"pid", "started_at_ms"}


def test_a_lot_of_binary_output_comes_whole(node: DockerNode) -> None:
    code, _, _ = node.run("sh", "-c", "dd if=/dev/zero bs=65536 count=320; exec >&- 2>&-; sleep 0.2; exit 4")
    assert code == 4
    assert (node.started[0].place.path / "stdout").stat().st_size == 320 * 65536


def test_environment_directory_and_volumes_are_as_ordered(node: DockerNode, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "data").write_text("from the node")
    volumes = (Volume(host=str(tmp_path / "in"), to="/data", read_only=True),)
    script = "echo $COLOUR $NVIDIA_VISIBLE_DEVICES $GOSCHED_CHECKPOINT_FILE; cat /data/data > copy; touch /data/new"
    code, out, err = node.run("sh", "-c", script, env={"COLOUR": "blue"}, isolation=Isolation(volumes=volumes))
    assert (code, out) == (1, "blue void /work/.gosched-checkpoint\n"), node.result()
    assert "Read-only file system" in err
    assert (node.started[0].place.work / "copy").read_text() == "from the node"


def test_a_task_runs_as_its_account_without_capabilities_and_gains_none(node: DockerNode) -> None:
    script = "id -u; id -g; id -G; ulimit -n; cat /proc/self/status"
    isolation = Isolation(rlimits=(Rlimit(name="nofile", soft=77, hard=88),), read_only=True)
    code, out, err = node.run("sh", "-c", script, account=NOBODY, isolation=isolation)
    assert code == 0, err
    assert out.splitlines()[:4] == ["65534", "65534", "65534 4", "77"]
    status = dict(line.split(":\t", 1) for line in out.splitlines()[4:] if ":\t" in line)
    assert {status[name] for name in ("CapPrm", "CapEff", "CapInh", "CapAmb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert node.run("touch", "/new", isolation=isolation)[0] == 1


def test_without_a_network_there_is_only_loopback(node: DockerNode) -> None:
    _, out, _ = node.run("ip", "-o", "link", isolation=Isolation(network=Network.NONE))
    assert [line.split()[1] for line in out.splitlines()] == ["lo:"]


def test_limits_reach_the_daemon(node: DockerNode) -> None:
    resources = Resources(cpu_millis=1500, memory_bytes=64 * MIB)
    isolation = Isolation(pids=50, swap_bytes=MIB, memory_low_bytes=32 * MIB)
    running = node.start("sleep", "3600", resources=resources, isolation=isolation, cpus="0")
    until(lambda: (running.place.path / "task.json").exists(), "it runs")
    (container,) = node.containers()
    host = node.client.inspect_container(container["Id"])["HostConfig"]
    assert (host["Memory"], host["MemorySwap"], host["MemoryReservation"]) == (64 * MIB, 65 * MIB, 32 * MIB)
    assert (host["PidsLimit"], host["CpusetCpus"], host["ShmSize"]) == (50, "0", 64 * MIB)
    assert (host["CpuQuota"], host["CpuShares"]) == (0, 1536), "CPUs of its own need no quota"
    tasks = str(node.base / "tasks")
    assert container["Labels"] == {"gosched.allocation": "j1/worker/0.1", "gosched.agent": tasks}
    running.kill()
    running.end()


def test_more_memory_than_asked_for_is_an_oom_kill(node: DockerNode) -> None:
    code, _, _ = node.run(
        "sh", "-c", "exec dd if=/dev/zero of=/dev/shm/x bs=1M count=200", resources=Resources(memory_bytes=16 * MIB)
    )
    assert code == 137
    assert node.result()["reason"] == "OOM_KILLED"
    usage = node.result()["usage"]
    assert isinstance(usage, dict)
    assert usage["oom_kills"] == 1


def test_a_fork_bomb_stops_at_its_limit(node: DockerNode) -> None:
    script = "i=0; while [ $i -lt 60 ]; do sleep 600 & i=$((i+1)); done; echo all"
    _, out, err = node.run("sh", "-c", script, isolation=Isolation(pids=20))
    assert "all" not in out
    assert "fork" in err


def test_usage_is_counted(node: DockerNode) -> None:
    """At the end, if the cgroup is still there then, and now and then before that."""
    assert node.run("sh", "-c", "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; sleep 5")[0] == 0
    usage = node.result()["usage"]
    assert isinstance(usage, dict)
    assert usage["cpu_ms"] > 50


def test_sigterm_reaches_the_program(node: DockerNode) -> None:
    running = node.start("sh", "-c", "trap 'echo saved; exit 3' TERM; echo up; while :; do sleep 0.05; done")
    running.await_output("up")
    running.signal(signal.SIGTERM)
    code, out, _ = running.end()
    assert (code, out) == (3, "up\nsaved\n")


def test_an_image_says_which_signal_ends_it_and_what_runs_in_it(node: DockerNode) -> None:
    running = node.start("sh", "-c", "trap 'exit 9' QUIT; echo up; while :; do sleep 0.05; done", image="quit")
    running.await_output("up")
    running.signal(signal.SIGTERM)
    assert running.end()[0] == 9
    assert node.run(image="quit") == (0, "of the image\n", "")


def test_other_signals_reach_the_processes_that_handle_them_and_no_others(node: DockerNode) -> None:
    """As a checkpoint signal does: a shell in between neither needs a handler nor dies of it."""
    inner = "trap 'touch $GOSCHED_CHECKPOINT_FILE; echo checkpoint' USR1; echo up; while :; do sleep 0.05; done"
    running = node.start("sh", "-c", f'sh -c "{inner}" & wait')
    running.await_output("up")
    os.kill(running.process.pid, signal.SIGUSR1)
    running.await_output("checkpoint")
    assert running.process.poll() is None
    assert (running.place.work / ".gosched-checkpoint").exists()
    running.kill()
    assert running.end()[0] == 137


def test_a_killed_launcher_leaves_no_container(node: DockerNode) -> None:
    running = node.start("sh", "-c", "(sleep 3601 &); echo up; exec sleep 3600")
    running.await_output("up")
    pid = json.loads((running.place.path / "task.json").read_text())["pid"]
    running.kill()
    assert running.end()[0] == 137
    assert node.containers() == []
    assert not Path(f"/proc/{pid}").exists()


def test_a_task_that_is_stopped_before_it_runs_leaves_no_container(node: DockerNode) -> None:
    for pause_s in (0.05, 0.2, 0.3, 0.4, 0.5, 0.6):
        running = node.start("sh", "-c", "trap 'exit 0' TERM; while :; do sleep 0.05; done")
        time.sleep(pause_s)
        running.signal(signal.SIGTERM)
        time.sleep(0.3)
        running.kill()
        running.end()
        assert node.containers() == []


def test_a_container_that_the_daemon_makes_for_a_launcher_that_is_gone_goes_too(node: DockerNode) -> None:
    with Gate(node.address, b"/containers/create") as gate, ThreadPoolExecutor(1) as pool:
        node.runtime = Docker(gate.address, {}, pids_max=4096, paths=EVERYWHERE)
        running = node.start("sleep", "600")
        until(lambda: gate.request in gate.seen, "it is asked for")
        running.kill()
        ending = pool.submit(running.end)
        until(lambda: b"DELETE " in gate.seen, "what is not there yet is removed")
        gate.open.set()
        assert ending.result(PATIENCE_S)[0] == 137
        assert node.containers() == []


def test_it_stands_still_and_goes_on(node: DockerNode) -> None:
    running = node.start("sh", "-c", "while :; do echo tick >> ticks; sleep 0.05; done")
    ticks = running.place.work / "ticks"  # its own file: what it writes to stdout may be on its way still
    until(ticks.exists, "it runs")
    subprocess.run(running.launch.freeze, check=True, timeout=PATIENCE_S)
    before = ticks.stat().st_size
    time.sleep(0.5)
    assert ticks.stat().st_size == before
    subprocess.run(running.launch.thaw, check=True, timeout=PATIENCE_S)
    until(lambda: ticks.stat().st_size > before, "it goes on")
    running.kill()
    running.end()


def test_a_command_beside_a_task_is_in_its_container(node: DockerNode) -> None:
    running = node.start("sh", "-c", "echo up; exec sleep 3600", account=NOBODY, env={"COLOUR": "blue"})
    running.await_output("up")
    script = "id -u; hostname; pwd; echo $COLOUR $SIZE; cat; echo problem >&2; exit 5"
    words = running.beside("sh", "-c", script, flags=("--env", "SIZE=big"))
    done = subprocess.run(words, input="typed\n", capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert (done.returncode, done.stderr) == (5, "problem\n")
    assert done.stdout.splitlines() == ["65534", "j1-worker-0", "/work", "blue big", "typed"]

    ours, theirs = os.openpty()
    fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 132, 0, 0))
    line = "until stty size | grep '50 132'; do sleep 0.05; done; tty; read line; echo got $line; exit 6"
    shell = subprocess.Popen(
        running.beside("sh", "-c", line, flags=("--tty",)),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    seen = b""
    while b"/dev/pts/" not in seen:
        seen += os.read(ours, 4096)
    os.write(ours, b"hello\r")
    while b"got hello" not in seen:
        seen += os.read(ours, 4096)
    assert shell.wait(PATIENCE_S) == 6
    os.close(ours)
    os.close(theirs)

    left = subprocess.Popen(running.beside("sleep", "7777"), stdin=subprocess.DEVNULL, start_new_session=True)
    until(lambda: "sleep 7777" in _all_in(node, running), "it runs")
    left.send_signal(signal.SIGHUP)
    left.wait(PATIENCE_S)
    assert "sleep 7777" not in _all_in(node, running)
    running.kill()
    running.end()


def test_what_a_command_writes_first_is_not_lost(node: DockerNode) -> None:
    """When it comes together with the header of the daemon's answer."""
    running = node.start("sleep", "600")
    until(lambda: (running.place.path / "task.json").exists(), "it runs")
    with Gate(node.address, b"/start HTTP/1.1", together=b"first") as gate:
        words = [gate.address if word == node.address else word for word in running.beside("echo", "first")]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE_S, check=True)
    assert done.stdout == b"first\n"


def _all_in(node: DockerNode, running: Running) -> str:
    return str(node.client.top(running.launch.exec[-1]))


@pytest.mark.parametrize(
    ("command", "reason", "code"),
    [
        (("nothing-here",), "COMMAND_NOT_FOUND", 127),
        (("/etc/not-executable",), "NOT_EXECUTABLE", 126),
        ((), "COMMAND_NOT_FOUND", 127),
    ],
)
def test_a_command_that_cannot_run_has_a_reason(
    node: DockerNode, command: tuple[str, ...], reason: str, code: int
) -> None:
    assert node.run(*command)[0] == code
    assert node.result()["reason"] == reason


def test_an_image_that_is_not_there_has_a_reason(node: DockerNode) -> None:
    code, _, err = node.run("sh", image="nothing", isolation=Isolation(pull=Pull.NEVER))
    assert code == 125
    assert node.result()["reason"] == "IMAGE_NOT_FOUND"
    assert "nothing" in err
    assert node.run("sh", image="Not/A/Name!")[0] == 125
    assert node.result()["reason"] in ("BAD_IMAGE", "IMAGE_NOT_FOUND")
    assert node.run("sh", image="127.0.0.1:9/nothing")[0] == 125
    assert node.result()["reason"] == "REGISTRY_UNREACHABLE"


@pytest.fixture
def registry() -> Iterator[str]:
    """Has no images."""
    with refusing(404, "MANIFEST_UNKNOWN", login="robot:sesame") as address:
        yield address


def test_a_registry_gets_the_credentials_that_were_named(node: DockerNode, registry: str, tmp_path: Path) -> None:
    image, named = f"{registry}/team/tool:1", Isolation(registry="ours")
    assert node.run("sh", image=image)[0] == 125
    assert node.result()["reason"] == "REGISTRY_REFUSED"
    wanted = order("sh", runtime=Runtime.DOCKER, image=image, isolation=named)
    with pytest.raises(CannotRun, match="ours"):
        node.runtime.launch(wanted, make_place(tmp_path / "refused", wanted, cgroup=False), {})

    (tmp_path / "password").touch(mode=0o600)
    (tmp_path / "password").write_text("sesame\n")
    known = {"ours": Registry(username="robot", password_file=str(tmp_path / "password"))}
    other = DockerNode(tmp_path / "other", node.address, known)
    assert other.run("sh", image=image, isolation=named)[0] == 125
    assert other.result()["reason"] == "IMAGE_NOT_FOUND", "it was let in"
    (spec,) = (tmp_path / "other").rglob("docker.json")
    assert "sesame" not in spec.read_text()
    (tmp_path / "password").unlink()
    wrong = DockerNode(tmp_path / "wrong", node.address, known)
    assert wrong.run("sh", image=image, isolation=named)[0] == 125
    assert wrong.result()["reason"] == "REGISTRY_REFUSED"


def test_containers_of_former_tasks_are_removed_and_no_others(node: DockerNode, tmp_path: Path) -> None:
    kept, left = node.start("sleep", "3600"), node.start("sleep", "3600")
    with contextlib.closing(DockerNode(tmp_path / "other", node.address)) as stranger:
        stranger.started, stranger.ordered = [kept, left], 2  # so that its task has another number
        other = stranger.start("sleep", "3600")
        for running in (kept, left, other):
            until(lambda place=running.place: (place.path / "task.json").exists(), "it runs")  # type: ignore[misc]
        tasks, known = kept.place.path.parent, {"j1/worker/0.1"}
        assert remove_orphans(node.address, tasks, known, time.time() - 3600) == [], "it was made since"
        assert remove_orphans(node.address, tasks, known, time.time() + 1) == ["j1/worker/1.1"]
        assert left.end()[0] in (125, 137)
        assert kept.process.poll() is None
        assert other.process.poll() is None
    with pytest.raises(OSError, match="no-such"):
        remove_orphans("unix:///no-such/socket", tasks, set(), time.time())


def test_a_daemon_that_does_not_answer_is_named(tmp_path: Path) -> None:
    assert "no daemon answers" in Docker(f"unix://{tmp_path}/none.sock", {}, 1, EVERYWHERE).problem()
    assert "has to be on this machine" in Docker("tcp://localhost:2375", {}, 1, EVERYWHERE).problem()


# On a cluster


@pytest.fixture(scope="module")
def cluster(daemon: str) -> Iterator[LocalCluster]:
    settings = {"docker_host": daemon, "users": {"own": True, "allowed": ["nobody"]}, "heartbeat": "500ms"}
    with LocalCluster(masters=1, agents=[AgentShape(settings=settings)], settings=PATIENT) as running:
        yield running


def test_the_example_runs_on_a_cluster(cluster: LocalCluster, daemon: str) -> None:
    text = (EXAMPLES / "docker.yaml").read_text()
    assert "image: busybox:latest\n" in text
    with cluster.client() as client:
        client.submit(text.replace("image: busybox:latest\n", "image: busy:latest\n"))
        done = client.wait("docker", timeout=PATIENCE_S)
        logs = b"".join(chunk.data for chunk in client.logs("docker")).decode()
    assert done.state is JobState.SUCCEEDED, f"{done.tasks[0]}\n{logs}"
    assert "hello from" in logs
    assert _containers(daemon) == []


def _containers(address: str) -> list[str]:
    return [container["Names"][0] for container in _all_containers(address)]


def _states(address: str) -> list[str]:
    return [container["State"] for container in _all_containers(address)]


def _all_containers(address: str) -> list[dict[str, Any]]:
    with contextlib.closing(docker.APIClient(base_url=address, version="auto")) as client:
        found: list[dict[str, Any]] = client.containers(all=True)
        return found


def test_a_task_outlives_its_agent_and_takes_commands_signals_and_stops_as_any(
    cluster: LocalCluster, daemon: str
) -> None:
    script = "trap 'echo saved; exit 3' TERM; echo up; while :; do sleep 0.1; done"
    job = f'name: stays\nimage: busy\nuser: nobody\nstop_grace: 5m\nresources: {{memory: 64Mi}}\nrun: "{script}"\n'
    with cluster.client() as client:
        client.submit(job)
        until(lambda: client.get_job("stays").tasks[0].state is TaskState.RUNNING, "it runs")
        (agent,) = cluster.agents.values()
        os.kill(agent.pid, signal.SIGKILL)
        agent.wait(PATIENCE_S)
        agent.start()
        beside = exec_once_adopted(cluster, "stays", "id -u; ps")
        assert beside[0] == "65534"
        assert len(_containers(daemon)) == 1

        assert goschedctl(cluster.endpoints, "job", "suspend", "stays").returncode == 0
        until(lambda: _states(daemon) == ["paused"], "it stands still")
        assert goschedctl(cluster.endpoints, "job", "resume", "stays").returncode == 0
        until(lambda: _states(daemon) == ["running"], "it goes on")
        assert goschedctl(cluster.endpoints, "job", "cancel", "stays").returncode == 0
        done = client.wait("stays", timeout=PATIENCE_S)
        logs = b"".join(chunk.data for chunk in client.logs("stays")).decode()
    assert done.state is JobState.CANCELLED
    assert done.tasks[0].exit_code == 3
    assert logs.splitlines()[-1] == "saved"
    assert _containers(daemon) == []


def test_a_container_of_no_known_task_is_removed_when_the_agent_starts(cluster: LocalCluster, daemon: str) -> None:
    (agent,) = cluster.agents.values()
    client = docker.APIClient(base_url=daemon, version="auto")
    tasks = cluster.data_dir / "agent-1" / "tasks"
    labels = {"gosched.agent": str(tasks), "gosched.allocation": "gone/worker/0.1"}
    client.create_container("busy", ["sleep", "3600"], labels=labels, name="left")
    client.create_container("busy", ["sleep", "3600"], name="strangers")
    try:
        os.kill(agent.pid, signal.SIGTERM)
        agent.wait(PATIENCE_S)
        time.sleep(1)  # the daemon knows whole seconds, and what was made in the agent's own first one stays
        agent.start()
        until(lambda: _containers(daemon) == ["/strangers"], "it is removed, and nothing else")
    finally:
        for name in ("left", "strangers"):
            with contextlib.suppress(docker.errors.NotFound):
                client.remove_container(name)
        client.close()


@pytest.mark.parametrize(
    ("name", "more", "reason", "code"),
    [
        ("no-image", "image: nothing\npull: never\nrun: [sh]", "IMAGE_NOT_FOUND", 125),
        ("no-command", "image: busy\nrun: [nothing]", "COMMAND_NOT_FOUND", 127),
        # Without its second of life, containerd may lose the word of it (docs/operations/isolation.md).
        ("hungry", f"image: busy\nrun: [sh, -c, {HUNGRY}]", "OOM_KILLED", 137),
    ],
)
def test_bad_ends_are_reasons_on_the_task(cluster: LocalCluster, name: str, more: str, reason: str, code: int) -> None:
    with cluster.client() as client:
        client.submit(f"name: {name}\nresources: {{memory: 32Mi}}\n{more}\n")
        done = client.wait(name, timeout=PATIENCE_S)
    assert (done.tasks[0].reason, done.tasks[0].exit_code) == (reason, code)
