"""A whole cluster of real processes on loopback, for `goschedctl local`, the demo, the tests and the benchmarks.

Invariant: everything that was started has ended after `stop()`, running tasks too, and nothing else is touched.
"""

from __future__ import annotations

import json
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil
import yaml

from gosched.cli.local_ports import HeldPorts
from gosched.cli.local_program import STOP_S, LocalClusterError, Program, end_in_order, tasks_under
from gosched.client import GoSchedClient, GoSchedError, Status
from gosched.core.records.job import JobState
from gosched.wire.shared_token import LINK, SharedToken, forget_tokens, keep_tokens, write_token

READY_S = 60.0
_LIVE = (JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentShape:
    """The offer of an agent, as in its config file. It may exceed the machine: tasks are not confined to it."""

    resources: Mapping[str, object] = field(default_factory=lambda: {"cpu": 4, "memory": "8Gi", "storage": "16Gi"})
    labels: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, object] = field(default_factory=dict)


class LocalCluster:
    """A cluster in `data_dir`, new or as it was left there: masters, and one agent per shape (`agent-1` and so on).

    `settings` goes into every master's config file. `protected`: every caller has to show a token, which this user's
    clients find by themselves, and no other account of the machine has. Without `data_dir` a temporary one is made, and
    removed by `stop`.
    """

    def __init__(
        self,
        data_dir: Path | None = None,
        *,
        masters: int = 3,
        agents: int | Sequence[AgentShape] = 2,
        settings: Mapping[str, object] | None = None,
        protected: bool = False,
    ) -> None:
        self._temporary = data_dir is None
        self.data_dir = (data_dir or Path(tempfile.mkdtemp(prefix="gosched-local-"))).absolute()
        try:
            self.data_dir.mkdir(parents=True, exist_ok=True)
            if self._temporary:
                self.data_dir.chmod(0o711)
        except OSError as error:
            raise LocalClusterError(f"cannot use the data directory {self.data_dir}: {error.strerror}") from error
        self.masters: dict[str, Program] = {}
        self.agents: dict[str, Program] = {}
        self._ports = HeldPorts()
        self._settings = settings or {}
        #: What every caller shows; empty: nothing is asked for.
        self.token = secrets.token_urlsafe(32) if protected else ""
        #: With the token, for this user alone.
        self.token_file = self.data_dir / "token"
        if protected:
            write_token(self.token_file, self.token)
        self._make_masters(masters)
        for shape in [AgentShape()] * agents if isinstance(agents, int) else agents:
            self._make_agent(shape)

    def __enter__(self) -> LocalCluster:
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def endpoints(self) -> str:
        return ",".join(master.grpc for master in self.masters.values())

    @property
    def page(self) -> str:
        """Return the address of the web page; with a token it is a link that logs a browser in, once."""
        address = f"http://{next(iter(self.masters.values())).http}"
        return f"{address}/login?code={SharedToken(self.token).proof(LINK)}" if self.token else address

    @property
    def _called(self) -> list[str]:
        """Return the addresses that clients call."""
        return [address for program in self.programs for address in (program.grpc, program.http) if address]

    @property
    def programs(self) -> list[Program]:
        return [*self.masters.values(), *self.agents.values()]

    def client(self, *, timeout_s: float = 30.0) -> GoSchedClient:
        """Return a new client, which the caller closes."""
        return GoSchedClient(self.endpoints, timeout_s=timeout_s)

    def start(self, *, timeout_s: float = READY_S) -> None:
        """Start all programs; return once there is a leader and every agent is READY. Raises LocalClusterError."""
        if self.token:
            keep_tokens(self._called, self.token)
        for program in self.programs:
            program.start()
        self.wait_ready(timeout_s=timeout_s)
        self.write_cluster_file()

    def wait_ready(self, *, timeout_s: float = READY_S) -> Status:
        """Wait until all programs run, there is a leader, and every agent is READY. Raises LocalClusterError."""
        ends = time.monotonic() + timeout_s
        problem = "no master answers"
        with self.client(timeout_s=2.0) as client:
            while time.monotonic() < ends:
                self._check_programs()
                try:
                    status = client.get_status()
                    if status.leader and status.nodes_ready >= len(self.agents):
                        return status
                    problem = f"{status.nodes_ready} of {len(self.agents)} agents are ready"
                except GoSchedError as error:
                    problem = str(error)
                time.sleep(0.05)
        words = "; ".join(f"{program.id}: {program.last_line()}" for program in self.programs)
        raise LocalClusterError(
            f"the cluster was not ready within {timeout_s:g} s: {problem}. Last lines of the logs: {words}"
        )

    def leader(self, *, timeout_s: float = READY_S) -> Program:
        """Return the leader, whose process is alive. Raises LocalClusterError when there is none in time."""
        ends = time.monotonic() + timeout_s
        with self.client(timeout_s=2.0) as client:
            while time.monotonic() < ends:
                with suppress(GoSchedError):
                    leader = self.masters.get(client.get_status().leader)
                    if leader is not None and leader.is_alive:
                        return leader
                time.sleep(0.02)
        raise LocalClusterError(f"no leader within {timeout_s:g} s")

    def add_agent(self, shape: AgentShape | None = None) -> Program:
        """Start another agent, and do not wait for it."""
        agent = self._make_agent(shape or AgentShape())
        agent.start()
        self.write_cluster_file()
        return agent

    def restart(self, program: Program) -> None:
        """Start a program that has ended again on its data, and do not wait until it is ready."""
        if program.is_alive:
            raise LocalClusterError(f"{program.id} runs already")
        program.start()
        self.write_cluster_file()

    def write_cluster_file(self) -> None:
        """Replace `cluster.json` atomically."""
        masters = [{"id": m.id, "pid": m.pid, "grpc": m.grpc, "http": m.http} for m in self.masters.values()]
        agents = [{"id": a.id, "pid": a.pid, "grpc": a.grpc} for a in self.agents.values()]
        scratch = self.data_dir / "cluster.json.new"
        scratch.write_text(json.dumps({"masters": masters, "agents": agents}, indent=2) + "\n")
        scratch.rename(self.data_dir / "cluster.json")

    def stop(self) -> None:
        """Cancel all jobs, end the programs in order, kill what is left, and remove a temporary directory."""
        try:
            for program in self.programs:
                with suppress(psutil.Error, LocalClusterError):
                    program.thaw()
            self._cancel_jobs()
            for group in (self.agents, self.masters):
                end_in_order(group.values())
        finally:
            for program in self.programs:
                if program.is_alive:
                    program.kill()
            self._kill_stragglers()
            self._ports.close()
            if self.token:
                forget_tokens(self._called)
                self.token_file.unlink(missing_ok=True)
            if self._temporary:
                shutil.rmtree(self.data_dir, ignore_errors=True)

    def new_master(self, id: str, seeds: Sequence[str], **raft: object) -> Program:
        """Return another master, not started; `seeds` are the ids of the masters in its config."""
        peers = [f"{seed}={self.replicas[seed]}" for seed in seeds]
        self.replicas[id] = self._address(id)
        return self._make_master(id, {"enabled": True, "peers": peers, **raft})

    def _make_masters(self, count: int) -> None:
        ids = [f"master-{n}" for n in range(1, count + 1)]
        #: Where each master's replica listens.
        self.replicas = {id: self._address(id) for id in ids}
        for id in ids:
            peers = [f"{other}={address}" for other, address in self.replicas.items() if other != id]
            self._make_master(id, {"enabled": count > 1, "peers": peers})

    def _make_master(self, id: str, raft: Mapping[str, object]) -> Program:
        grpc, http = (self._address(id) for _ in range(2))
        own: dict[str, Any] = {
            "server": {"grpc_addr": grpc, "http_addr": http},
            "raft": {"node_id": id, "bind_addr": self.replicas[id], **raft},
            "data_dir": str(self.data_dir / id),
        }
        settings = _merged({**own, **self._shown}, self._settings)
        self.masters[id] = self._program("gosched-master", id, settings, grpc=grpc, http=http)
        return self.masters[id]

    def _make_agent(self, shape: AgentShape) -> Program:
        id = f"agent-{len(self.agents) + 1}"
        home = self.data_dir / id
        home.mkdir(mode=0o711, exist_ok=True)  # tasks of other users pass through
        (home / "node_id").write_text(f"{id}\n")  # a readable id, in place of a random one
        grpc = self._address(id)
        own = {
            "masters": [master.grpc for master in self.masters.values()],
            "grpc_addr": grpc,
            "data_dir": str(home),
            "resources": dict(shape.resources),
            "labels": dict(shape.labels),
            # The user that starts the cluster runs the tasks: all is its own. Those of root may ask for nobody.
            "users": {"own": True, "shared": True, "default": "nobody"},
            "volumes": {"allowed": ["/"]},
            **self._shown,
        }
        self.agents[id] = self._program("gosched-agent", id, _merged(own, shape.settings), grpc=grpc)
        return self.agents[id]

    @property
    def _shown(self) -> dict[str, object]:
        return {"shared_token_file": str(self.token_file)} if self.token else {}

    def _program(self, name: str, id: str, settings: Mapping[str, object], *, grpc: str, http: str = "") -> Program:
        config = self.data_dir / f"{id}.yaml"
        config.write_text(yaml.safe_dump(settings, sort_keys=False))
        script = Path(sys.executable).with_name(name)
        command = [*self._prefix(id), str(script), "--config", str(config)]
        return Program(id, command, self.data_dir, grpc=grpc, http=http)

    def _address(self, id: str) -> str:
        """Return a free address for the program to listen on."""
        return f"127.0.0.1:{self._ports.take()}"

    def _prefix(self, id: str) -> list[str]:
        """Return words to put before the program on its command line, such as a wrapper that ends in an exec."""
        return []

    def _check_programs(self) -> None:
        for program in self.programs:
            if program.exit_code is not None:
                raise LocalClusterError(f"{program.id} ended with code {program.exit_code}: {program.last_line()}")

    def _cancel_jobs(self) -> None:
        """Cancel all jobs, if there is a leader and time enough; tasks that are left are killed later."""
        if not any(agent.is_alive for agent in self.agents.values()):
            return
        if not any(master.is_alive for master in self.masters.values()):
            return
        ends = time.monotonic() + STOP_S
        with suppress(GoSchedError), self.client(timeout_s=2.0) as client:
            for job in client.list_jobs(states=_LIVE):
                if time.monotonic() > ends:
                    return
                with suppress(GoSchedError):
                    client.cancel(job.id, reason="the local cluster stops")
            while client.list_jobs(states=_LIVE, limit=1) and time.monotonic() < ends:
                time.sleep(0.05)

    def _kill_stragglers(self) -> None:
        """Kill the tasks, which outlive their agent by design. Their supervisors work in the agents' directories."""
        ends = time.monotonic() + STOP_S
        homes = [self.data_dir / agent for agent in self.agents]
        while (found := tasks_under(homes)) and time.monotonic() < ends:
            for process in found:
                with suppress(psutil.NoSuchProcess):
                    process.kill()
            psutil.wait_procs(found, timeout=1.0)


def _merged(own: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(own)
    for key, value in extra.items():
        deep = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merged(merged[key], value) if deep else value
    return merged
