"""Real masters and an agent with the configs and the certificates of the chart, on loopback in place of pods."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helm.renders import render
from tests.integration.support import PATIENCE_S, until
from tests.ports import HeldPort
from tools.chart_tools import chart_tools

PROGRAMS = Path(sys.executable).parent
HELM = str(chart_tools() / "bin" / "helm")


class Release:
    """The objects of the default release, its secrets as folders, and its programs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.objects = render(HELM, "default")
        for found in self.objects:
            if found["kind"] == "Secret":
                secret = folder / found["metadata"]["name"]
                secret.mkdir()
                for name, data in found["data"].items():
                    (secret / name).touch(mode=0o600)
                    (secret / name).write_bytes(base64.b64decode(data))
        self.ports = [{name: HeldPort() for name in ("grpc", "http", "raft", "token")} for _ in range(5)]
        self.grpc = [f"localhost:{ports['grpc'].number}" for ports in self.ports]

    def scale(self, replicas: int) -> None:
        """What a pod is given from now on, as after an upgrade. The secrets are kept."""
        self.objects = render(HELM, "default", f"master.replicaCount={replicas}")

    def config(self, name: str, file: str) -> Any:
        data = next(o["data"] for o in self.objects if o["kind"] == "ConfigMap" and o["metadata"]["name"] == name)
        return yaml.safe_load(data[file])

    def write(self, name: str, config: Any) -> str:
        (self.folder / name).write_text(yaml.safe_dump(config))
        return str(self.folder / name)

    @contextmanager
    def master(self, ordinal: int) -> Iterator[None]:
        """What differs from a pod is where it listens."""
        pod, ports = f"gosched-{ordinal}", self.ports[ordinal]
        config = self.config("gosched-master", "gosched.yaml")
        config["server"] |= {f"{api}_addr": ports[api].address for api in ("grpc", "http", "token")}
        config["raft"]["bind_addr"] = ports["raft"].address
        peers = [peer.partition("=")[0] for peer in config["raft"]["peers"]]
        config["raft"]["peers"] = [f"{p}={o['raft'].address}" for p, o in zip(peers, self.ports, strict=False)]
        env = {
            "GOSCHED_NODE_ID": pod,
            "GOSCHED_ADVERTISE_HOST": "localhost",
            "GOSCHED_DATA_DIR": str(self.folder / pod),
            **self.tls("gosched-master-tls", pod, pod),
        }
        with self.running("gosched-master", self.write(f"{pod}.yaml", config), env):
            yield

    @contextmanager
    def agent(self) -> Iterator[None]:
        config = self.config("gosched-agent", "agent.yaml")
        config |= {"masters": self.grpc, "data_dir": str(self.folder / "agent"), "users": {"own": True}}
        config |= {"resources": {"cpu": 4, "memory": "1Gi"}}
        with self.running("gosched-agent", self.write("agent.yaml", config), self.tls("gosched-agent-tls")):
            yield

    def tls(self, secret: str, cert: str = "tls", key: str = "tls") -> dict[str, str]:
        folder = self.folder / secret
        files = {"CERT": folder / f"{cert}.crt", "KEY": folder / f"{key}.key", "CA": folder / "ca.crt"}
        return {f"GOSCHED_TLS_{name}": str(file) for name, file in files.items()}

    def members(self) -> list[str]:
        return self.goschedctl("cluster", "members", "-o", "name").stdout.split()

    def voters(self) -> list[str]:
        listed = json.loads(self.goschedctl("cluster", "members", "-o", "json").stdout or "[]")
        return [member["id"] for member in listed if member["role"] in ("voter", "leader")]

    def leave(self) -> None:
        """The hook before an upgrade or a rollback, where goschedctl is on the path."""
        job = next(o for o in self.objects if o["kind"] == "Job")["spec"]["template"]["spec"]["containers"][0]
        script = self.folder / "leave.py"
        script.write_text(next(o["data"] for o in self.objects if "leave.py" in o.get("data", {}))["leave.py"])
        env = {
            "PATH": f"{PROGRAMS}:{os.environ['PATH']}",
            "GOSCHED_ENDPOINTS": ",".join(self.grpc),
            **self.tls("gosched-client-tls"),
        }
        words = [sys.executable, str(script), *job["command"][2:]]
        subprocess.run(words, env=env, timeout=4 * PATIENCE_S, check=True)

    @contextmanager
    def running(self, program: str, config: str, env: dict[str, str]) -> Iterator[None]:
        with Path(config).with_suffix(".log").open("w") as log:
            words = [str(PROGRAMS / program), f"--config={config}"]
            process = subprocess.Popen(words, env={**os.environ, **env}, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.terminate()
            try:
                process.wait(PATIENCE_S)
            finally:
                process.kill()

    def goschedctl(self, *words: str, secret: str = "gosched-client-tls") -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "GOSCHED_ENDPOINTS": ",".join(self.grpc), "NO_COLOR": "1", **self.tls(secret)}
        command = [str(PROGRAMS / "goschedctl"), *words]
        return subprocess.run(command, env=env, capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False)


@pytest.fixture(scope="module")
def release(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Release]:
    found = Release(tmp_path_factory.mktemp("release"))
    with ExitStack() as running:
        for ordinal in range(3):
            running.enter_context(found.master(ordinal))
        running.enter_context(found.agent())
        try:
            until(lambda: "READY" in found.goschedctl("node", "list").stdout, "the agent is ready")
            yield found
        except BaseException:
            for log in found.folder.glob("*.log"):
                print(f"== {log.name}", log.read_text()[-2000:], sep="\n")
            raise


def test_a_job_runs_on_an_agent_that_is_known_by_its_role_alone(release: Release) -> None:
    done = release.goschedctl("run", "--cpu", "0.1", "--", "/bin/echo", "a job ran")
    assert (done.returncode, done.stdout.strip()) == (0, "a job ran"), done.stderr
    status = release.goschedctl("status", "-o", "json")
    assert yaml.safe_load(status.stdout)["nodes_ready"] == 1


def test_the_agents_certificate_is_no_clients(release: Release) -> None:
    refused = release.goschedctl("node", "list", secret="gosched-agent-tls")
    assert refused.returncode != 0
    assert "a certificate of role agent may not call ListNodes" in refused.stderr


def test_masters_of_a_larger_release_join_and_of_a_smaller_one_leave(release: Release) -> None:
    three = ["gosched-0", "gosched-1", "gosched-2"]
    assert sorted(release.members()) == three
    release.scale(5)
    with release.master(3), release.master(4):
        until(lambda: sorted(release.voters()) == [*three, "gosched-3", "gosched-4"], "both are members that vote")
        release.leave()
        assert len(release.members()) == 5
        release.scale(3)
        release.leave()
        until(lambda: sorted(release.members()) == three, "every master knows that both are gone")
    assert release.goschedctl("run", "--cpu", "0.1", "--", "/bin/true").returncode == 0
