"""The images, built and run by a real Docker: the two commands, agents in containers, compose, and who is answered.

Needs root, dockerd, mmdebstrap and iptables; for compose also go, once.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import tarfile
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Any

import pytest

from gosched import __version__
from tests.integration.containers import make_rootfs, tar_of
from tests.integration.images import ROOT, DockerHost, builder, compose, docker_host, image_archive
from tests.integration.support import until

pytestmark = pytest.mark.timeout(600)

MEGABYTE = 1_000_000
IDENTITY = """
import sys, grpc
from gosched.wire.v1 import worker_pb2, worker_pb2_grpc
stub = worker_pb2_grpc.WorkerServiceStub(grpc.insecure_channel(sys.argv[1]))
stub.GetIdentity(worker_pb2.GetIdentityRequest(), timeout=30)
"""
COMPOSE_ENDPOINTS = "127.0.0.1:9090,127.0.0.1:9190,127.0.0.1:9290"


@pytest.fixture(scope="module")
def host() -> Iterator[DockerHost]:
    base = Path(tempfile.mkdtemp(prefix="gosched-images-"))
    base.chmod(0o711)  # an agent's data directory is below it
    try:
        with docker_host(base) as found:
            yield found
    finally:
        shutil.rmtree(base, ignore_errors=True)


def nodes(host: DockerHost, endpoints: str = "127.0.0.1:9090") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(host.goschedctl("node", "list", "-o", "json", endpoints=endpoints))
    return found


def ready_nodes(host: DockerHost, endpoints: str = "127.0.0.1:9090") -> int:
    return sum(node["state"] == "READY" for node in nodes(host, endpoints))


def health(host: DockerHost, container: str) -> str:
    return host.docker("inspect", "-f", "{{.State.Health.Status}}", container)


def stop(host: DockerHost, container: str) -> tuple[int, float]:
    """Exit code, and the seconds that it took."""
    began = time.monotonic()
    host.docker("stop", "--time", "60", container)
    took = time.monotonic() - began
    return int(host.docker("inspect", "-f", "{{.State.ExitCode}}", container)), took


#: Of those without a base. kubernetes-asyncio brings a class for each kind of object.
AT_MOST_MB = {"gosched-master": 170, "goschedctl": 150, "gosched-kube": 190}


def test_images_of_what_needs_no_system_are_small_and_hold_nothing_to_work_with(host: DockerHost) -> None:
    for image in (*AT_MOST_MB, "gosched-agent"):
        (about,) = json.loads(host.docker("inspect", f"{image}:dev"))
        print(f"{image}: {about['Size'] / MEGABYTE:.0f} MB")
        labels = about["Config"]["Labels"]
        assert labels["org.opencontainers.image.title"] == image
        assert labels["org.opencontainers.image.version"] == __version__
        assert len(labels["org.opencontainers.image.revision"]) == 40
        if image == "gosched-agent":
            continue
        assert about["Size"] < AT_MOST_MB[image] * MEGABYTE
        assert about["Config"]["User"] == "10001:10001"
        shell = host.try_docker("run", "--rm", "--entrypoint", "sh", f"{image}:dev")
        assert "executable file not found" in shell.stderr
    found = "for p in gcc cc make pip; do command -v $p; done; ls -d /root/.cache 2>/dev/null; true"
    assert host.docker("run", "--rm", "--entrypoint", "sh", "gosched-agent:dev", "-c", found) == ""


def test_the_same_sources_make_the_same_files_down_to_their_times(tmp_path: Path) -> None:
    """The layers of goschedctl, and those that its stages make again."""
    again = (
        "rm -rf /opt/gosched /image /data /gosched && "
        "python3 image_root.py base requirements/client.lock --with-system && python3 image_root.py gosched && "
        "tar -C /image -cf /out/base.tar . && tar -C /gosched -cf /out/gosched.tar ."
    )
    with builder() as make:
        base = f"BASE={make.base}"
        stage = make.docker("build", "--quiet", "--network=host", "--target=ctl-gosched", "--build-arg", base, ".")
        make.docker("run", "--rm", "--network=none", "-v", f"{tmp_path}:/out", stage, "sh", "-c", again)
    with image_archive() as archive, tarfile.open(archive) as image:
        manifests = json.load(image.extractfile("manifest.json") or pytest.fail("no manifest"))
        manifest = next(found for found in manifests if "goschedctl:dev" in found["RepoTags"])
        layers = [_files(image.extractfile(name)) for name in manifest["Layers"]]
    made = []
    for name in ("base.tar", "gosched.tar"):
        with (tmp_path / name).open("rb") as layer:
            made.append(_files(layer))
    assert [len(files) > 50 for files in made] == [True, True]
    for shipped, built in zip(layers, made, strict=True):
        assert shipped == built


def _files(layer: IO[bytes] | None) -> dict[str, tuple[object, ...]]:
    found: dict[str, tuple[object, ...]] = {}
    with tarfile.open(fileobj=layer) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.isfile() else None
            content = hashlib.sha256(file.read()).hexdigest() if file else member.linkname
            name = member.name.removeprefix("./").rstrip("/")
            found[name] = (member.type, oct(member.mode & 0o7777), int(member.mtime), content)
    return {name: about for name, about in found.items() if name not in ("", ".")}


def test_two_commands_make_a_cluster_that_runs_a_gang_and_ends_cleanly(host: DockerHost) -> None:
    began = time.monotonic()
    with ExitStack() as both:
        master = both.enter_context(host.container("-p", "9090:9090", "-p", "8080:8080", "gosched-master:dev"))
        gateway = host.docker("inspect", "-f", "{{.NetworkSettings.Gateway}}", master)  # the host's own address there
        agent = both.enter_context(host.container("--privileged", "gosched-agent:dev", f"--master={gateway}:9090"))
        until(lambda: "ready" in host.logs(master), "the master is ready")
        until(lambda: ready_nodes(host) == 1, "the agent has joined")
        print(f"from the first `docker run` to a node that is READY: {time.monotonic() - began:.1f} s")
        assert "reaches it from a private address" in host.logs(master)
        (node,) = nodes(host)
        job = "name: gang\ncount: 2\nresources: {cpu: 100m, memory: 16Mi}\nrun: echo on $GOSCHED_NODE\n"
        file = host.base / "gang.yaml"
        file.write_text(job)
        host.goschedctl("submit", "--wait", str(file))
        assert host.goschedctl("logs", "gang").count("on ") == 2
        until(lambda: health(host, master) == health(host, agent) == "healthy", "both are healthy")
        _a_killed_supervisors_task_leaves_no_zombie(host, agent)
        _tasks_end_with_the_container_and_start_again(host, agent)
        for name in (agent, master):
            code, took = stop(host, name)
            print(f"docker stop {name[:6]}: exit code {code} after {took:.1f} s")
            assert code == 0, host.logs(name)[-2000:]
            assert took < 30
        assert node["state"] == "READY"


def _tasks_end_with_the_container_and_start_again(host: DockerHost, agent: str) -> None:
    host.goschedctl("submit", "--name", "left", "--", "sleep", "985")

    def left() -> tuple[str, int]:
        shown = json.loads(host.goschedctl("job", "show", "left", "-o", "json"))
        return shown["state"], shown["attempt"]

    until(lambda: left() == ("RUNNING", 1), "the task runs")
    code, _ = stop(host, agent)
    assert code == 0
    host.docker("start", agent)
    until(lambda: left() == ("RUNNING", 2), "the agent is back as the same node, and the job runs again")
    assert len(nodes(host)) == 1
    host.goschedctl("job", "cancel", "left")


def _a_killed_supervisors_task_leaves_no_zombie(host: DockerHost, agent: str) -> None:
    """Its processes become children of the container's first process, which reaps them."""

    def processes() -> list[list[str]]:
        """Pid, parent, state and command of each, as this machine sees them."""
        listed = host.docker("top", agent, "-eo", "pid,ppid,stat,args").splitlines()[1:]
        return [line.split(maxsplit=3) for line in listed]

    host.goschedctl("submit", "--name", "orphaned", "--", "/bin/sh", "-c", "sleep 987 & sleep 986; exit 0")
    until(lambda: any(words[3] == "sleep 986" for words in processes()), "the task runs")
    parents = {words[0]: words[1] for words in processes()}
    task = next(words[1] for words in processes() if words[3] == "sleep 986")
    os.kill(int(parents[task]), signal.SIGKILL)
    for pid in [words[0] for words in processes() if words[3].startswith("sleep 98")]:
        with contextlib.suppress(ProcessLookupError):  # the agent may have been there first
            os.kill(int(pid), signal.SIGKILL)
    # Else it may be started again. Where it was already, the second start may have been killed, too, and is its end.
    host.try_goschedctl("job", "cancel", "orphaned", endpoints="127.0.0.1:9090")
    until(lambda: not any("sleep 98" in words[3] for words in processes()), "nothing of the task is left")
    until(lambda: not any(words[2].startswith("Z") for words in processes()), "zombies are reaped")


def test_an_agent_in_a_container_runs_tasks_of_docker_and_of_root_filesystems_or_says_what_it_needs(
    host: DockerHost,
) -> None:
    rootfs = make_rootfs(host.base / "rootfs")
    archive = tar_of(rootfs, host.base / "busy.tar")
    host.docker("import", str(archive), "busy:latest")
    data = host.base / "agent"
    data.mkdir(mode=0o711)
    socket = host.address.removeprefix("unix://")
    daemon = ("-v", f"{socket}:/var/run/docker.sock")
    with ExitStack() as all_of_them:

        def start(*words: str) -> str:
            return all_of_them.enter_context(host.container(*words))

        master = start("-p", "9090:9090", "gosched-master:dev")
        to = f"--master={host.address_of(master)}:9090"
        until(lambda: "ready" in host.logs(master), "the master is ready")
        hidden = start("--privileged", *daemon, "gosched-agent:dev", to)
        elsewhere = start("--privileged", "--pid=host", *daemon, "gosched-agent:dev", to)
        until(lambda: "run it with --pid=host" in host.logs(hidden), "the first says what it needs")
        until(lambda: "run it with --volume=/var/lib/gosched:/var/lib/gosched" in host.logs(elsewhere), "so the second")
        same = ("-v", f"{data}:{data}", "-v", f"{archive}:/images/busy.tar:ro")
        start("--privileged", "--pid=host", *daemon, *same, "gosched-agent:dev", to, f"--data-dir={data}")
        until(lambda: ready_nodes(host) == 3, "all have joined")
        for runtime, image in (("docker", "busy"), ("rootfs", "/images/busy.tar")):
            file = host.base / f"{runtime}.yaml"
            file.write_text(
                f"name: in-{runtime}\nruntime: {runtime}\nimage: {image}\nresources: {{cpu: 100m, memory: 32Mi}}\n"
                "placement: {node_selector: {gosched.io/runtime.docker: 'true'}}\nrun: [sh, -c, 'ls /bin | wc -l']\n"
            )
            host.goschedctl("submit", "--wait", str(file))
            assert int(host.goschedctl("logs", f"in-{runtime}").split()[-1]) > 20


def test_without_tls_public_callers_are_refused_everywhere_but_at_the_health_port(
    host: DockerHost,
) -> None:
    host.docker("network", "create", "--subnet", "203.0.113.0/24", "public")
    asks = "import urllib.request as u; u.build_opener(u.ProxyHandler({})).open('http://MASTER:8080/api/v1/status')"
    try:
        with host.container("--network=public", "gosched-master:dev") as master:
            until(lambda: "ready" in host.logs(master), "the master is ready")
            address = host.address_of(master)
            on = ("run", "--rm", "--network=public")
            ctl = host.try_docker(*on, "goschedctl:dev", "--endpoints", f"{address}:9090", "status")
            assert ctl.returncode == 4
            assert "is none: configure tls" in ctl.stderr
            python = (*on, "--entrypoint", "python")
            http = host.try_docker(*python, "goschedctl:dev", "-c", asks.replace("MASTER", address))
            assert "403: Forbidden" in http.stderr
            probe = "import sys; from gosched.health import ask; print(ask(sys.argv[1], 'ready'))"
            assert host.docker(*python, "gosched-master:dev", "-c", probe, f"{address}:9091") == ""
            with host.container(
                "--network=public", "gosched-agent:dev", "--grpc-addr=:9100", f"--master={address}:9090"
            ) as agent:
                until(lambda: "is none: configure tls" in host.logs(agent), "the master refuses it")
                order = host.try_docker(*python, "goschedctl:dev", "-c", IDENTITY, f"{host.address_of(agent)}:9100")
                assert "is none: configure tls" in order.stderr
            first = ("--node-id=m1", "--peers=m2=203.0.113.77:7000")
            with host.container("--network=public", "gosched-master:dev", *first) as member:
                peers = ("--node-id=m2", f"--peers=m1={host.address_of(member)}:7000")
                second = host.try_docker(*on, "--ip", "203.0.113.77", "gosched-master:dev", *peers)
                assert second.returncode != 0
                assert "is none: configure tls" in second.stderr
    finally:
        host.docker("network", "rm", "public")


def test_compose_makes_a_cluster_whose_gang_outlives_its_leader(host: DockerHost) -> None:
    plugin = compose()

    def composed(*words: str) -> str:
        done = host.run(plugin, "--file", str(ROOT / "compose.yaml"), *words, timeout_s=180)
        assert done.returncode == 0, done.stderr
        return done.stdout

    began = time.monotonic()
    try:
        composed("up", "--detach", "--wait")
        until(lambda: ready_nodes(host, COMPOSE_ENDPOINTS) == 2, "both agents have joined")
        print(f"from `docker compose up` to two nodes that are READY: {time.monotonic() - began:.1f} s")
        gang = (ROOT / "examples/gang.yaml").read_text().replace("count: 8", "count: 4")
        file = host.base / "pi.yaml"
        file.write_text(gang.replace("cpu: 1,", "cpu: 250m,"))
        host.goschedctl("submit", str(file), endpoints=COMPOSE_ENDPOINTS)

        def rounds() -> int:
            return host.try_goschedctl("logs", "gang-pi", endpoints=COMPOSE_ENDPOINTS).stdout.count("round ")

        until(lambda: rounds() >= 2, "the gang runs")
        leader = str(json.loads(host.goschedctl("status", "-o", "json", endpoints=COMPOSE_ENDPOINTS))["leader"])
        host.docker("kill", f"gosched-{leader}-1")
        killed = time.monotonic()
        until(lambda: _leader(host) not in ("", leader), "another master leads")
        print(f"from `docker kill` of the leader to the next one's answer: {time.monotonic() - killed:.1f} s")
        host.goschedctl("job", "wait", "gang-pi", endpoints=COMPOSE_ENDPOINTS)
        shown = json.loads(host.goschedctl("job", "show", "gang-pi", "-o", "json", endpoints=COMPOSE_ENDPOINTS))
        assert shown["state"] == "SUCCEEDED"
        assert len({task["node"] for task in shown["tasks"]}) == 2
        assert host.goschedctl("logs", "gang-pi", endpoints=COMPOSE_ENDPOINTS).count("agrees: pi") == 4
    except BaseException:
        print(composed("logs", "--tail=40"))
        raise
    finally:
        composed("down", "--volumes", "--timeout=30")


def _leader(host: DockerHost) -> str:
    asked = host.try_goschedctl("status", "-o", "json", endpoints=COMPOSE_ENDPOINTS)
    return str(json.loads(asked.stdout)["leader"] or "") if asked.returncode == 0 else ""
