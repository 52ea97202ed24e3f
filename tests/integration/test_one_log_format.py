"""A whole cluster whose daemons log records and nothing else, whoever writes them, and whose levels are changed."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from gosched.cli.local_cluster import LocalCluster
from gosched.cli.local_program import Program

from .support import PATIENCE_S, until

#: What daemons write for people, as it is.
PLAIN = ("gosched-master ", "gosched-master:", "gosched-agent:")


def told(program: Program) -> list[dict[str, Any]]:
    """Return the program's records. All its lines are records, or lines for people."""
    lines = program.log.read_text().splitlines()
    whole = [line for line in lines if not line.startswith(PLAIN)]
    return [json.loads(line) for line in whole]


def replica_of(master: Program) -> psutil.Process:
    children = psutil.Process(master.pid).children()
    return next(child for child in children if "gosched.replication.replica" in child.cmdline())


@pytest.mark.timeout(120)
def test_every_line_of_every_daemon_is_a_record_and_levels_change_while_they_run(tmp_path: Path) -> None:
    with LocalCluster(tmp_path / "c", masters=3, agents=1) as cluster, cluster.client() as client:
        follower = next(master for master in cluster.masters.values() if master is not cluster.leader())
        until(lambda: all(master.grpc_address for master in client.members()), "all have said where they listen")
        _ctl(cluster, "cluster", "log-level", follower.id, "debug")
        with socket.create_connection(("127.0.0.1", int(follower.grpc.rpartition(":")[2]))) as sock:
            sock.sendall(b"nonsense" * 100)  # gRPC's core may say something of it
        job = client.submit("name: one\nresources: {cpu: 10m}\nrun: 'true'\n").job_id
        assert client.wait(job, timeout=PATIENCE_S).state.name == "SUCCEEDED"
        refused = _ctl(cluster, "cluster", "log-level", "nobody", "debug", code=1)
        assert "there is no master" in refused

        (agent,) = cluster.agents.values()
        config = cluster.data_dir / f"{agent.id}.yaml"
        config.write_text(config.read_text() + "logging: {level: debug}\n")
        agent.send(signal.SIGHUP)
        until(lambda: any("config read again" in record["event"] for record in told(agent)), "it was read again")

        replica_of(follower).send_signal(signal.SIGABRT)  # C code would end it so
        until(lambda: follower.exit_code is not None, "its front ends with it")
        assert "Fatal Python error: Aborted" in follower.log.read_text()
        others = [program for program in cluster.programs if program is not follower]
        for program in others:
            records = told(program)
            assert records
            for record in records:
                assert {"timestamp", "level", "event"} <= set(record)
            key = "node" if program is agent else "master"
            assert all(record.get(key) for record in records if "config" not in record["event"]), program.id
        jobs = [record for master in others[:2] for record in told(master) if record["event"] == "job"]
        assert {"job", "queue", "epoch", "revision"} <= set(jobs[-1])
        changed = [r for r in map(_parsed, follower.log.read_text().splitlines()) if r.get("after") == "debug"]
        assert [(record["before"], record["level"]) for record in changed] == [("info", "warning")]


def _parsed(line: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(line) if line.startswith("{") else {}
    return found


def _ctl(cluster: LocalCluster, *words: str, code: int = 0) -> str:
    command = [sys.executable, "-m", "gosched.cli.main", "--endpoints", cluster.endpoints, *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr
