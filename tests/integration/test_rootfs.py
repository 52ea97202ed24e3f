"""Tasks on a root filesystem, with crun and with runc: what they see, how they end, and what is left of them.

Needs root, cgroup v2 (on a hybrid host without controllers, too), crun, runc and busybox.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import pty
import signal
import subprocess
import tarfile
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gosched.agent.beneath import opened
from gosched.agent.runtimes.images import MAX_IMAGES, Images
from gosched.agent.runtimes.interface import CannotRun
from gosched.agent.runtimes.rootfs import Rootfs
from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.core.records.job import JobState
from gosched.core.records.task import TaskState
from gosched.core.spec.isolation import Isolation, Network, Rlimit, Volume
from gosched.core.spec.task_group import Runtime
from tests.integration.containers import (
    EVERYWHERE,
    NOBODY,
    Node,
    Running,
    exec_once_adopted,
    make_place,
    make_rootfs,
    needs,
    tar_of,
)
from tests.integration.support import PATIENCE_S, PATIENT, goschedctl, until

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(scope="session")
def image() -> Iterator[Path]:
    """Where every user may pass through."""
    needs("crun", "runc", "busybox")
    with tempfile.TemporaryDirectory(prefix="gosched-image-") as base:
        Path(base).chmod(0o755)
        yield make_rootfs(Path(base) / "a: rootfs, with \\ in its name")


def node_with(oci_runtime: str, base: Path, image: Path) -> Node:
    return Node(base, Rootfs(oci_runtime, base / "images", EVERYWHERE), Runtime.ROOTFS, image)


@pytest.fixture(params=["crun", "runc"])
def node(request: pytest.FixtureRequest, tmp_path: Path, image: Path) -> Iterator[Node]:
    with contextlib.closing(node_with(request.param, tmp_path, image)) as node:
        yield node


@pytest.fixture
def crun(tmp_path: Path, image: Path) -> Iterator[Node]:
    with contextlib.closing(node_with("crun", tmp_path, image)) as node:
        yield node


def refused(node: Node, *command: str, **more: object) -> CannotRun:
    wanted = node.order(*command, **more)  # type: ignore[arg-type]
    with pytest.raises(CannotRun) as caught:
        node.runtime.launch(wanted, make_place(node.base, wanted, cgroup=False), {})
    return caught.value


def test_a_task_is_pid_1_with_its_own_host_name_and_its_exit_code_is_reported(node: Node) -> None:
    code, out, err = node.run("sh", "-c", "ps; hostname; pwd; echo to-stderr >&2; exit 7")
    assert code == 7
    lines = out.splitlines()
    assert lines[1].split()[0] == "1"
    assert len([line for line in lines if line.strip()[:1].isdigit()]) == 2, "a shell and ps, nobody else"
    assert lines[-2:] == ["j1-worker-0", "/work"]
    assert err == "to-stderr\n"


def test_what_a_task_writes_outside_of_its_directory_is_gone_with_it(node: Node, image: Path) -> None:
    running = node.start("sh", "-c", "echo x > /new; rm /bin/yes; echo y > /work/kept; cat /new; ls /bin/yes")
    code, out, _ = running.end()
    assert (code, out) == (1, "x\n")
    assert not (image / "new").exists()
    assert (image / "bin" / "yes").is_symlink()
    assert sorted(p.name for p in image.iterdir()) == ["bin", "data", "etc", "tmp"], "no mount points are left"
    assert (running.place.work / "kept").read_text() == "y\n"
    assert sorted(p.name for p in running.place.path.iterdir()) == ["stderr", "stdout", "work"]


def test_a_read_only_root_takes_no_writes_but_the_working_directory_does(node: Node) -> None:
    isolation = Isolation(read_only=True)
    code, _, err = node.run("sh", "-c", "touch /work/x && touch /new", isolation=isolation)
    assert code == 1
    assert "Read-only file system" in err


def test_without_overlayfs_the_image_is_copied(node: Node, image: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gosched.agent.runtimes.rootfs.has_overlay", lambda directory: False)
    running = node.start("sh", "-c", "rm /bin/yes; stat -c %a /tmp; grep -c overlay /proc/mounts")
    code, out, _ = running.end()
    assert (code, out) == (1, "1777\n0\n")
    assert (image / "bin" / "yes").is_symlink()
    assert not (running.place.path / "oci").exists()


def test_volumes_are_bound_as_asked(node: Node, tmp_path: Path) -> None:
    for name in ("in", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "in" / "data").write_text("from the node")
    volumes = (
        Volume(host=str(tmp_path / "in"), to="/data", read_only=True),
        Volume(host=str(tmp_path / "out"), to="/mnt/results"),
    )
    script = "cat /data/data > /mnt/results/copy; touch /data/new"
    code, _, err = node.run("sh", "-c", script, isolation=Isolation(volumes=volumes))
    assert code == 1
    assert "Read-only file system" in err
    assert (tmp_path / "out" / "copy").read_text() == "from the node"
    assert not (tmp_path / "in" / "new").exists()


def test_a_task_runs_as_its_account_without_capabilities_and_gains_none(node: Node) -> None:
    script = "id -u; id -g; id -G; umask; ulimit -n; cat /proc/self/status"
    isolation = Isolation(umask=0o027, rlimits=(Rlimit(name="nofile", soft=77, hard=88),))
    code, out, _ = node.run("sh", "-c", script, account=NOBODY, isolation=isolation)
    assert code == 0
    assert out.splitlines()[:5] == ["65534", "65534", "65534 4", "0027", "77"]
    status = dict(line.split(":\t", 1) for line in out.splitlines()[5:] if ":\t" in line)
    assert {status[name] for name in ("CapPrm", "CapEff", "CapBnd", "CapInh", "CapAmb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")


@pytest.mark.parametrize(
    "script",
    [
        "mkdir -p /tmp/m && mount -t tmpfs tmpfs /tmp/m",
        "mount -o remount,rw /proc/sys",
        "unshare -r true",
        "chroot / true",
        "mknod /tmp/disk b 254 0",
        "echo 1 > /proc/sys/kernel/sysrq",
        "ls /proc/scsi/scsi",
        "hostname other",
        "umount /dev/shm",
    ],
)
def test_root_in_a_task_is_not_root_on_the_node(crun: Node, script: str) -> None:
    assert crun.run("sh", "-c", script)[0] != 0


def test_the_process_is_born_in_the_tasks_cgroup_and_sees_no_other_process(node: Node) -> None:
    running = node.start("sleep", "3600")
    assert running.place.cgroup is not None
    below = running.place.cgroup / "task"  # where runc puts it
    pid = await_sleeper(running)
    where = Path(f"/proc/{pid}/cgroup").read_text().splitlines()[-1].removeprefix("0::")
    assert where.endswith((running.place.cgroup.name, f"{running.place.cgroup.name}/{below.name}"))
    others = subprocess.run(running.beside("ps"), capture_output=True, timeout=PATIENCE_S, check=True)
    assert others.stdout.count(b"\n") == 3  # head, sleep, ps
    running.kill()
    assert running.end()[0] == 137


def await_sleeper(running: Running) -> int:
    """The pid of its `sleep`, as this machine sees it."""
    found: list[int] = []

    def runs() -> bool:
        for pid in running.pids():
            with contextlib.suppress(OSError):  # it has ended meanwhile
                if Path(f"/proc/{pid}/comm").read_text().strip() == "sleep":
                    found.append(pid)
        return bool(found)

    until(runs, "it sleeps")
    return found[0]


def test_without_a_network_there_is_only_loopback(node: Node) -> None:
    _, out, _ = node.run("ip", "-o", "link", isolation=Isolation(network=Network.NONE))
    assert [line.split()[1] for line in out.splitlines()] == ["lo:"]
    assert "LOWER_UP" in out


def test_sigterm_reaches_the_program(node: Node) -> None:
    running = node.start("sh", "-c", "trap 'echo saved; exit 3' TERM; echo up; while :; do sleep 0.05; done")
    running.await_output("up")
    running.signal(signal.SIGTERM)
    code, out, _ = running.end()
    assert (code, out) == (3, "up\nsaved\n")


def test_a_program_that_ignores_sigterm_and_has_daemons_is_killed_without_a_trace(node: Node) -> None:
    running = node.start("sh", "-c", "(sleep 3601 &) ; (sleep 3602 &); echo up; exec sleep 3600")
    running.await_output("up")
    running.signal(signal.SIGTERM)
    with pytest.raises(subprocess.TimeoutExpired):
        running.process.wait(0.3)
    running.kill()
    assert running.end()[0] == 137
    assert not (running.place.path / "oci").exists()
    assert str(running.place.path) not in Path("/proc/self/mountinfo").read_text()


def test_when_only_the_runtime_is_killed_cleaning_up_kills_the_container(node: Node) -> None:
    running = node.start("sleep", "3600")
    inner = await_sleeper(running)
    running.process.kill()
    assert running.end()[0] == 137
    until(lambda: not Path(f"/proc/{inner}").exists(), "the container is gone")


def test_a_command_beside_a_task_is_in_its_namespaces_as_its_account(node: Node) -> None:
    running = node.start("sh", "-c", "echo up; exec sleep 3600", account=NOBODY, env={"COLOUR": "blue"})
    running.await_output("up")
    script = "id -u; id -G; hostname; pwd; echo $COLOUR $SIZE; ps; cat; cat /proc/self/cgroup; exit 5"
    words = running.beside("sh", "-c", script, flags=("--env", "SIZE=big"))
    done = subprocess.run(words, input="typed\n", capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 5, done.stderr
    assert done.stdout.splitlines()[:5] == ["65534", "65534 4", "j1-worker-0", "/work", "blue big"]
    assert "sleep 3600" in done.stdout
    assert "typed" in done.stdout.splitlines()
    assert running.place.cgroup is not None
    where = done.stdout.splitlines()[-1]
    assert where == "0::/" or running.place.cgroup.name in where, "its own cgroup, by a name of its own or by none"

    ours, theirs = pty.openpty()
    shell = subprocess.Popen(
        running.beside("sh", "-c", "tty; echo done", flags=("--tty",)),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    assert shell.wait(PATIENCE_S) == 0
    assert b"/dev/pts/" in os.read(ours, 4096)
    os.close(ours)
    os.close(theirs)
    running.kill()
    running.end()


@pytest.mark.parametrize("ending", [".tar", ".tar.gz"])
def test_a_tarball_is_unpacked_once_and_shared(node: Node, image: Path, tmp_path: Path, ending: str) -> None:
    archive = tar_of(image, tmp_path / f"image{ending}")
    for _ in range(2):
        code, out, _ = node.run("sh", "-c", "echo x > /bin/new; stat -c %a /tmp; ls -la /bin/sh", image=archive)
        assert code == 0
        assert out.startswith("1777\n")
        assert (node.started[-1].place.path / "task.json").exists() == node.started[-1].launch.announces
    assert [running.launch.announces for running in node.started] == [True, False]
    unpacked = [path for path in (tmp_path / "images").iterdir() if not path.suffix]
    assert len(unpacked) == 1
    assert not (unpacked[0] / "bin" / "new").exists()
    assert (unpacked[0] / "etc" / "passwd").read_text().startswith("root:")


def unpacked(images: Images, archive: Path, user: Path) -> Path:
    with opened(archive) as file:
        return images.unpacked(file, user)


def test_starts_at_the_same_time_unpack_an_archive_once(image: Path, tmp_path: Path) -> None:
    archive, images = tar_of(image, tmp_path / "image.tar"), Images(tmp_path / "images")
    found: list[Path] = []
    user = tmp_path / "user"
    user.mkdir()
    threads = [threading.Thread(target=lambda: found.append(unpacked(images, archive, user))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert len(found) == 8
    assert len(set(found)) == 1


def test_an_archive_that_changed_is_another_image(crun: Node, image: Path, tmp_path: Path) -> None:
    archive = tar_of(image, tmp_path / "image.tar")
    assert crun.run("ls", "/version", image=archive)[0] != 0
    with tarfile.open(archive, "a") as tar:
        tar.addfile(tarfile.TarInfo("version"))
    assert crun.run("ls", "/version", image=archive)[0] == 0


def test_images_that_nobody_uses_go_when_there_are_many(tmp_path: Path) -> None:
    images, user = Images(tmp_path / "images"), tmp_path / "user"
    user.mkdir()
    first = unpacked(images, _tar(tmp_path / "first.tar", []), user)
    for number in range(MAX_IMAGES + 3):
        unpacked(images, _tar(tmp_path / f"{number}.tar", []), tmp_path / "gone")
    assert first.is_dir(), "it is in use"
    kept = [path for path in (tmp_path / "images").iterdir() if not path.suffix]
    assert len(kept) == MAX_IMAGES


def _tar(path: Path, members: list[tarfile.TarInfo]) -> Path:
    with tarfile.open(path, "w") as tar:
        for member in members:
            tar.addfile(member, io.BytesIO(b"x" * member.size))
    return path


def _member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname = kind, link
    member.size = 1 if kind == tarfile.REGTYPE else 0
    member.mode = 0o4755
    return member


def test_nothing_in_an_archive_leads_outside(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    victim = tmp_path / "victim"
    victim.write_text("unharmed")
    archive = _tar(
        tmp_path / "evil.tar",
        [
            _member("../../escaped"),
            _member(f"{outside}/absolute"),
            _member("link", tarfile.SYMTYPE, str(outside)),
            _member("link/through"),
            _member("up", tarfile.SYMTYPE, "../../../../../../../.." + str(victim)),
            _member("up"),
            _member("device", tarfile.BLKTYPE),
        ],
    )
    user = tmp_path / "user"
    user.mkdir()
    image = unpacked(Images(tmp_path / "images"), archive, user)
    assert not (image / "device").exists()
    assert list(outside.iterdir()) == []
    assert victim.read_text() == "unharmed"
    assert not (tmp_path / "images" / "escaped").exists()
    assert not (tmp_path / "escaped").exists()


Bad = Callable[[Path], Path]


def _empty(path: Path) -> Path:
    path.mkdir()
    return path


def _text(path: Path) -> Path:
    path.write_text("no archive " * 1000)
    return path


def _cut(path: Path) -> Path:
    member = _member("bin/sh")
    member.size = 100_000
    _tar(path, [member])
    os.truncate(path, 50_000)
    return path


def _pipe(path: Path) -> Path:
    os.mkfifo(path)
    return path


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (lambda path: path, "IMAGE_NOT_FOUND"),
        (_empty, "BAD_IMAGE"),
        (_text, "BAD_IMAGE"),
        (_cut, "BAD_IMAGE"),
        (_pipe, "BAD_IMAGE"),
        (lambda path: Path("relative/image"), "BAD_IMAGE"),
    ],
)
def test_an_image_that_is_none_is_refused_with_a_reason(crun: Node, tmp_path: Path, make: Bad, reason: str) -> None:
    bad = make(tmp_path / "bad.tar")
    if bad.is_file():  # not unpacked by the agent itself
        assert crun.run("sh", image=bad)[0] == 125
        found = crun.result()
        refusal = CannotRun(found["reason"], found["detail"], blames_node=found["blames_node"])
    else:
        refusal = refused(crun, "sh", image=bad)
    assert refusal.reason == reason
    assert "\n" not in refusal.detail
    assert refusal.detail
    assert not refusal.blames_node


@pytest.mark.parametrize(
    ("command", "reason", "code"),
    [
        ((), "COMMAND_NOT_FOUND", 127),
        (("nothing-here",), "COMMAND_NOT_FOUND", 127),
        (("/bin/nothing",), "COMMAND_NOT_FOUND", 127),
        (("./nothing",), "COMMAND_NOT_FOUND", 127),
        (("/etc/not-executable",), "NOT_EXECUTABLE", 126),
        (("/etc",), "NOT_EXECUTABLE", 126),
        (("/etc/no-program",), "NOT_EXECUTABLE", 126),
        (("/etc/script",), "COMMAND_NOT_FOUND", 127),
    ],
)
def test_a_command_that_cannot_run_is_refused_with_a_reason(
    crun: Node, command: tuple[str, ...], reason: str, code: int
) -> None:
    refusal = refused(crun, *command)
    assert (refusal.reason, refusal.exit_code) == (reason, code)


@pytest.mark.parametrize("program", ["/etc/no-program", "/etc/script", "/data/env"])
def test_nothing_is_refused_that_would_run(crun: Node, monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    isolation = Isolation(volumes=(Volume(host="/usr/bin", to="/data", read_only=True),))  # whose loader stays outside
    assert refused(crun, program, isolation=isolation).exit_code in (126, 127)
    monkeypatch.setattr("gosched.agent.runtimes.lookup.interpreter", lambda name, file: "")
    assert crun.run(program, isolation=isolation)[0] != 0


def test_a_volume_that_is_not_there_is_a_reason(crun: Node) -> None:
    volumes = (Volume(host="/no/such/path", to="/data"),)
    assert refused(crun, "sh", isolation=Isolation(volumes=volumes)).reason == "VOLUME_NOT_FOUND"
    volumes = (Volume(host="/tmp", to="/proc/../"),)
    assert refused(crun, "sh", isolation=Isolation(volumes=volumes)).reason == "BAD_VOLUME"


def test_a_missing_runtime_is_named() -> None:
    problem = Rootfs("no-such-runtime", Path("/nowhere"), EVERYWHERE).problem()
    assert "no-such-runtime" in problem


# On a cluster


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    needs("crun", "busybox")
    settings = {"users": {"own": False, "default": "nobody"}, "heartbeat": "500ms"}
    with LocalCluster(masters=1, agents=[AgentShape(settings=settings)], settings=PATIENT) as running:
        yield running


def test_the_example_runs_on_a_cluster(cluster: LocalCluster, image: Path) -> None:
    text = (EXAMPLES / "rootfs.yaml").read_text()
    assert "image: /tmp/gosched-rootfs " in text
    link = image.parent / "example"  # in reach of every user
    link.symlink_to(image)
    with cluster.client() as client:
        client.submit(text.replace("image: /tmp/gosched-rootfs ", f"image: {link} "))
        done = client.wait("rootfs", timeout=PATIENCE_S)
        logs = b"".join(chunk.data for chunk in client.logs("rootfs")).decode()
    assert done.state is JobState.SUCCEEDED, f"{done.tasks[0]}\n{logs}"
    assert "the working directory can be written to\nthe volume cannot\n" in logs


STAYS = "trap 'echo saved; exit 3' TERM; echo up; while :; do sleep 0.1; done"


def test_a_task_outlives_its_agent_and_takes_commands_signals_and_stops_as_any(
    cluster: LocalCluster, image: Path, tmp_path: Path
) -> None:
    link = image.parent / "image"  # in reach of every user
    link.symlink_to(image)
    with cluster.client() as client:
        client.submit(f'name: stays\nimage: {link}\nstop_grace: 5m\nresources: {{memory: 64Mi}}\nrun: "{STAYS}"\n')
        until(lambda: client.get_job("stays").tasks[0].state is TaskState.RUNNING, "it runs")
        (agent,) = cluster.agents.values()
        os.kill(agent.pid, signal.SIGKILL)
        agent.wait(PATIENCE_S)
        agent.start()
        lines = exec_once_adopted(cluster, "stays", "id -u; ps")
        assert lines[0] == "65534"
        assert lines[2].split()[0] == "1"

        assert goschedctl(cluster.endpoints, "job", "suspend", "stays").returncode == 0
        until(lambda: stand_still(cluster) == [True], "it stands still")
        assert goschedctl(cluster.endpoints, "job", "resume", "stays").returncode == 0
        until(lambda: stand_still(cluster) == [False], "it goes on")
        assert goschedctl(cluster.endpoints, "job", "cancel", "stays").returncode == 0
        done = client.wait("stays", timeout=PATIENCE_S)
        logs = b"".join(chunk.data for chunk in client.logs("stays")).decode()
    assert done.state is JobState.CANCELLED
    assert done.tasks[0].exit_code == 3
    assert logs.splitlines()[-1] == "saved"
    left = list(cluster.data_dir.glob("agent-*/tasks/*/oci"))
    assert left == []
    assert str(cluster.data_dir) not in Path("/proc/self/mountinfo").read_text()


def stand_still(cluster: LocalCluster) -> list[bool]:
    """Of each task that was ever told to, by its supervisor's record."""
    records = cluster.data_dir.glob("agent-*/tasks/*/frozen.json")
    return [json.loads(record.read_text())["frozen"] for record in records]


@pytest.mark.parametrize(
    ("more", "reason"),
    [("image: /no/such/image\nrun: [sh]", "IMAGE_NOT_FOUND"), ("image: /dev/null\nrun: [sh]", "BAD_IMAGE")],
)
def test_bad_input_is_a_reason_on_the_task(cluster: LocalCluster, more: str, reason: str) -> None:
    name = reason.lower().replace("_", "-")
    with cluster.client() as client:
        client.submit(f"name: {name}\nresources: {{memory: 64Mi}}\n{more}\n")
        done = client.wait(name, timeout=PATIENCE_S)
    assert done.tasks[0].reason == reason


def test_an_archive_is_unpacked_for_a_task_that_has_less_memory_and_bad_ones_are_told(
    cluster: LocalCluster, image: Path
) -> None:
    archive, bad = tar_of(image, image.parent / "image.tar.gz"), _text(image.parent / "bad.tar")
    with cluster.client() as client:
        for name, where in (("unpacks", archive), ("again", archive), ("bad", bad)):
            client.submit(f"name: {name}\nimage: {where}\nresources: {{memory: 16Mi}}\nrun: [sh, -c, 'echo in; ps']\n")
        for name in ("unpacks", "again"):
            done = client.wait(name, timeout=PATIENCE_S)
            logs = b"".join(chunk.data for chunk in client.logs(name)).decode()
            assert done.state is JobState.SUCCEEDED, f"{done.tasks[0]}\n{logs}"
            assert logs.startswith("in\n")
        done = client.wait("bad", timeout=PATIENCE_S)
        assert (done.state, done.tasks[0].reason, done.tasks[0].exit_code) == (JobState.FAILED, "BAD_IMAGE", 125)
