"""A cluster with certificates and secrets, of real processes: tasks get their values, and nothing else does."""

from __future__ import annotations

import base64
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
import yaml

from gosched.agent.tasks.secrets import default_roots
from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.client import GoSchedClient, GoSchedError, TlsFiles
from gosched.core.commands.jobs import Action
from gosched.core.records.job import JobState
from gosched.wire.secret_keys import new_key_line
from tests.ports import HeldPort
from tests.replication.certificates import Authority

from .containers import make_rootfs, needs
from .support import PATIENCE_S, PATIENT, goschedctl, kill_whole, until

BIN = Path(sys.executable).parent
MEMBERS = ("m1", "m2", "m3")
MARKER = b"nowhere-in-clear-7f3a9c"
JOB = """\
name: {name}
tenant: ml
resources: {{cpu: 100m}}
secrets: [{{name: marker}}, {{name: marker, file: deep/er/copy}}, {{name: marker, env: MARKER}}]
run: |
  ls -l $GOSCHED_SECRETS_DIR $GOSCHED_SECRETS_DIR/deep/er
  md5sum $GOSCHED_SECRETS_DIR/marker $GOSCHED_SECRETS_DIR/deep/er/copy | cut -c 1-32
  printf %s "$MARKER" | md5sum | cut -c 1-32
  printf '%s\\n' $GOSCHED_SECRETS_DIR > {folder}/{name}.at
  until [ -e {folder}/{name}.end ]; do sleep 0.05; done
"""


class Cluster:
    """Three masters that share a keyring, and an agent; all of it in `folder`."""

    def __init__(self, folder: Path, running: ExitStack) -> None:
        self.folder = folder
        self.running = running
        self.authority = Authority(folder / "ca")
        self.user = self.authority.files("alice", "client", cluster="prod")
        self.ports = {m: {use: HeldPort() for use in ("grpc", "http", "raft")} for m in MEMBERS}
        self.endpoints = ",".join(ports["grpc"].address for ports in self.ports.values())
        self.keys = folder / "keys"
        self.keys.touch(mode=0o600)
        self.keys.write_text(new_key_line("k1") + "\n")
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        for m in MEMBERS:
            self.run("gosched-master", m, m, "master", self._master(m))
        agent = {"masters": self.endpoints.split(","), "resources": {"cpu": 2}, "users": {"own": True, "shared": True}}
        self.agent = agent
        self.run("gosched-agent", "agent", socket.gethostname(), "agent", agent)

    def _master(self, member: str) -> dict[str, Any]:
        ports = self.ports[member]
        peers = [f"{other}={self.ports[other]['raft'].address}" for other in MEMBERS if other != member]
        raft = {"enabled": True, "node_id": member, "bind_addr": ports["raft"].address, "peers": peers}
        server = {"grpc_addr": ports["grpc"].address, "http_addr": ports["http"].address}
        secrets = {"key_file": str(self.keys)}
        logging = {"level": "debug"}
        return {
            "server": server, "raft": raft, "access": {"admins": ["alice"]}, "secrets": secrets, "logging": logging,
        }  # fmt: skip

    def run(self, program: str, home: str, name: str, role: str, settings: dict[str, Any]) -> None:
        files = self.authority.files(name, role, cluster="prod")
        tls = {"cert": files.cert, "key": files.key, "ca": files.ca}
        at = self.folder / home
        at.mkdir(exist_ok=True)
        (at / "config.yaml").write_text(yaml.safe_dump({**settings, "tls": tls, "data_dir": str(at)}))
        log = self.running.enter_context((at / "log").open("a"))
        command = [str(BIN / program), "--config", str(at / "config.yaml")]
        process = self.running.enter_context(subprocess.Popen(command, stdout=log, stderr=log))
        self.processes[home] = process
        self.running.callback(process.terminate)

    def client(self) -> GoSchedClient:
        tls = TlsFiles(cert=self.user.cert, key=self.user.key, ca=self.user.ca)
        return GoSchedClient(self.endpoints, tls=tls, timeout_s=PATIENCE_S)

    def goschedctl(self, *words: str, stdin: bytes = b"", fails: bool = False) -> str:
        tls = {f"GOSCHED_TLS_{part.upper()}": getattr(self.user, part) for part in ("cert", "key", "ca")}
        done = subprocess.run(
            [str(BIN / "goschedctl"), *words],
            env={**os.environ, **tls, "GOSCHED_ENDPOINTS": self.endpoints},
            input=stdin,
            capture_output=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert (done.returncode != 0) is fails, done
        return (done.stdout + done.stderr).decode()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    tmp_path.chmod(0o755)
    with ExitStack() as running:
        yield Cluster(tmp_path, running)


def ready(client: GoSchedClient) -> bool:
    try:
        return client.get_status().nodes_ready == 1
    except GoSchedError:
        return False


def forms(marker: bytes) -> list[bytes]:
    """Return the marker as it may be written: as it is, in hex, and in base64 at each of the three offsets."""
    coded = [base64.b64encode(b"x" * before + marker)[before + 1 : -4] for before in range(3)]
    return [marker, marker.hex().encode(), *[each[2:-2] for each in coded]]


def found_in(files: Iterable[Path], marker: bytes = MARKER) -> list[str]:
    """Return the files that hold the marker in some form."""
    found = []
    for file in files:
        with suppress(OSError):
            data = file.read_bytes()
            if any(form in data for form in forms(marker)):
                found.append(str(file))
    return found


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and not path.is_symlink()]


def command_lines() -> list[Path]:
    return list(Path("/proc").glob("[0-9]*/cmdline"))


def test_a_value_reaches_its_task_and_is_in_no_file_log_answer_or_process_list(cluster: Cluster) -> None:
    folder = cluster.folder
    with cluster.client() as client:
        until(lambda: ready(client), "the node is ready")
        said = cluster.goschedctl("secret", "set", "ml/marker", "--from-file", "-", stdin=MARKER)
        assert "secret ml/marker set, version 1" in said
        job = client.submit(JOB.format(name="uses", folder=folder)).job_id
        place = folder / "uses.at"
        until(lambda: place.exists() and place.read_text(), "the task has its secrets")
        at = Path(place.read_text().strip())

        # It can be found where it has to be: in the task's own directory, in memory.
        assert found_in(files_below(at.parent)) != []
        assert (at / "marker").read_bytes() == MARKER
        assert at.is_relative_to(default_roots()[0]) or at.is_relative_to(default_roots()[-1])
        assert ((at / "marker").stat().st_mode & 0o777, at.stat().st_mode & 0o777) == (0o400, 0o500)
        environment = Path(f"/proc/{_main_process(job)}/environ").read_bytes()
        assert b"MARKER=" + MARKER in environment

        # And nowhere else, in none of its forms.
        answers = folder / "answers"
        answers.write_text(
            "\n".join(
                [
                    cluster.goschedctl("secret", "list", "-o", "json"),
                    cluster.goschedctl("job", "show", "uses", "-o", "yaml"),
                    cluster.goschedctl("job", "show", "uses", "-o", "json"),
                    cluster.goschedctl("explain", "uses", "-o", "json"),
                    cluster.goschedctl("events", "-o", "json"),
                    cluster.goschedctl("status", "-o", "json"),
                    cluster.goschedctl("config", "view"),
                    cluster.goschedctl("exec", "uses", "--", "sh", "-c", 'printf %s "$MARKER" | md5sum'),
                ]
            )
        )
        assert '"name": "marker"' in answers.read_text()
        md5 = subprocess.run(["md5sum"], input=MARKER, capture_output=True, check=True).stdout.decode()[:32]
        assert md5 in answers.read_text()  # a command beside the task has the variable, too
        cluster.goschedctl("cluster", "backup", str(folder / "backup"))
        cluster.goschedctl("cluster", "snapshot")
        assert found_in([*files_below(folder), *command_lines()]) == []

        (folder / "uses.end").touch()
        assert client.wait(job, timeout=PATIENCE_S).state is JobState.SUCCEEDED
        until(lambda: not at.parent.exists(), "its secrets go with the task")
        log = b"".join(chunk.data for chunk in client.logs(job)).decode()
        assert log.count(md5) == 3, log
        assert found_in(files_below(folder)) == []
        audit = b"".join(file.read_bytes() for file in files_below(folder) if "audit" in str(file))
        for word in (b"SecretService/SetSecret", b"secret ml/marker", b"alice"):
            assert word in audit


def test_the_search_finds_what_is_there_in_each_form(tmp_path: Path) -> None:
    for number, text in enumerate(
        (MARKER, MARKER.hex().encode(), *(base64.b64encode(b"p" * n + MARKER + b"tail") for n in range(4)))
    ):
        file = tmp_path / str(number)
        file.write_bytes(b"before " + text + b" after")
        assert found_in([file]) == [str(file)], text


def _main_process(job: str) -> int:
    for cmdline in command_lines():
        with suppress(OSError):
            environment = (cmdline.parent / "environ").read_bytes()
            if f"GOSCHED_JOB_ID={job}".encode() in environment and b"MARKER=" in environment:
                return int(cmdline.parent.name)
    raise AssertionError("the task's process is not there")


# On one machine, without TLS


@pytest.fixture
def local(tmp_path: Path) -> Iterator[LocalCluster]:
    keys = tmp_path / "keys"
    keys.touch(mode=0o600)
    keys.write_text(new_key_line("k1") + "\n")
    settings = {**PATIENT, "secrets": {"key_file": str(keys)}}
    users = {"own": False, "default": "nobody"}
    shape = AgentShape(settings={"images": {"allowed": ["/"]}, "oci_runtime": "crun", "users": users})
    with LocalCluster(masters=3, agents=[shape], settings=settings) as running:
        yield running


@pytest.fixture
def anywhere() -> Iterator[Path]:
    """A directory that every user may pass through."""
    with tempfile.TemporaryDirectory(prefix="gosched-secrets-") as base:
        Path(base).chmod(0o755)
        yield Path(base)


def ends(client: GoSchedClient, name: str, more: str) -> tuple[JobState, str]:
    """Return how a job ends, and what it printed."""
    job = client.submit(f"name: {name}\ntenant: ml\nresources: {{cpu: 100m}}\n{more}").job_id
    state = client.wait(job, timeout=PATIENCE_S).state
    return state, b"".join(chunk.data for chunk in client.logs(job)).decode()


@pytest.mark.timeout(300)
def test_secrets_outlast_a_backup_and_its_restore_to_a_new_cluster_with_the_same_keys(
    local: LocalCluster, tmp_path: Path
) -> None:
    uses = "secrets: [{name: db, file: db}]\nrun: '[ $(id -un) = nobody ] && cat $GOSCHED_SECRETS_DIR/db'\n"
    with local.client() as client:
        client.set_secret("ml", "db", MARKER)
        assert ends(client, "before", uses) == (JobState.SUCCEEDED, MARKER.decode())
    backup = tmp_path / "backup"
    leader = local.leader()
    assert leader is not None
    assert goschedctl(leader.grpc, "cluster", "backup", str(backup)).returncode == 0
    assert found_in([backup]) == []
    for master in local.masters.values():
        kill_whole(master)
        shutil.rmtree(local.data_dir / master.id)
    for master in local.masters.values():
        config = str(local.data_dir / f"{master.id}.yaml")
        flags = ("--config", config, "--new-cluster", "second", "--tasks", "adopt")
        done = goschedctl("", "cluster", "restore", str(backup), *flags)
        assert done.returncode == 0, done.stderr
    for master in local.masters.values():
        local.restart(master)
    local.wait_ready()
    with local.client() as client:
        assert ends(client, "after", uses) == (JobState.SUCCEEDED, MARKER.decode())
        assert client.rotate_secrets().resealed == 1  # for the id of the new cluster
        assert ends(client, "resealed", uses) == (JobState.SUCCEEDED, MARKER.decode())


@pytest.mark.timeout(300)
def test_a_secret_that_is_deleted_before_its_task_starts_ends_the_task_with_the_reason(local: LocalCluster) -> None:
    with local.client() as client:
        client.set_secret("ml", "db", MARKER)
        held = "tenant: ml\nhold: true\nresources: {cpu: 100m}\nsecrets: [{name: db, env: DB}]\nrun: echo $DB\n"
        job = client.submit(f"name: held\n{held}").job_id
        client.delete_secret("ml", "db")
        client.control(job, Action.RELEASE)
        assert client.wait(job, timeout=PATIENCE_S).state is JobState.FAILED
        (task,) = client.get_job(job).tasks
        assert task.reason == "SECRET_NOT_AVAILABLE"
        assert task.detail.startswith("there is no secret ml/db any more")
        with pytest.raises(GoSchedError, match="there is no secret ml/db: set it with goschedctl secret set ml/db"):
            client.submit(f"name: again\n{held}")


@pytest.mark.timeout(300)
def test_a_task_on_a_root_filesystem_has_its_secrets_at_run_secrets_for_reading(
    local: LocalCluster, anywhere: Path
) -> None:
    needs("crun", "busybox")
    image = make_rootfs(anywhere / "image")
    lines = (
        "cat $GOSCHED_SECRETS_DIR/deep/db; echo; echo at $GOSCHED_SECRETS_DIR; "
        "echo more > $GOSCHED_SECRETS_DIR/new || echo closed"
    )
    more = f"image: {image}\nsecrets: [{{name: db, file: deep/db}}]\nrun: '{lines}'\n"
    with local.client() as client:
        client.set_secret("ml", "db", MARKER)
        state, log = ends(client, "inside", more)
        assert state is JobState.SUCCEEDED, log
        assert MARKER.decode() in log
        assert "at /run/secrets" in log
        assert "closed" in log
    logs = [file for file in files_below(local.data_dir) if "/logs/" in str(file)]
    assert found_in([file for file in files_below(local.data_dir) if file not in logs]) == []
