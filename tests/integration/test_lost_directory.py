"""An agent's data directory is lost while its tasks run: they are gone before their replacements begin.

The test with a container needs root, dockerd, containerd, runc and busybox.
"""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path

import docker
import psutil

from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.core.records.job import JobState
from tests.agent.conftest import lives, wait_for
from tests.integration.containers import make_rootfs
from tests.integration.daemons import docker_daemon, import_image
from tests.integration.hostile import Node
from tests.integration.support import PATIENCE_S, ledger_job, starts, until

SETTINGS = {"lease": {"node_timeout": "4s", "first_lease": "5s", "heartbeat": "500ms"}}


def test_no_task_runs_beside_its_replacement_after_its_agent_lost_the_directory(tmp_path: Path) -> None:
    one = AgentShape(resources={"cpu": 1, "memory": "1Gi"})
    with LocalCluster(masters=1, agents=[one], settings=SETTINGS) as cluster, cluster.client() as client:
        ledger, second = tmp_path / "ledger", tmp_path / "second"
        # The second attempt says whether the first one's process is there.
        look = f"if [ $GOSCHED_ATTEMPT = 1 ]; then sleep 600; fi; ps -o pid= > {second}.new; mv {second}.new {second}"
        client.submit(ledger_job("long", ledger, cpu="1", then=look, more="retry: {max: 3}"))
        until(lambda: starts(ledger), "the task runs")
        ((_, _, pid),) = starts(ledger)
        (child,) = psutil.Process(pid).children()
        agent = cluster.agents["agent-1"]
        agent.kill()
        wait_for(lambda: is_removed(cluster.data_dir / agent.id))
        cluster.restart(agent)
        assert client.wait("long", timeout=PATIENCE_S).state is JobState.SUCCEEDED
        assert [attempt for _, attempt, _ in starts(ledger)] == [1, 2]
        assert not lives(pid)
        assert not child.is_running()
        assert not {pid, child.pid} & {int(word) for word in second.read_text().split()}


def is_removed(directory: Path) -> bool:
    """Remove it, and return whether it is gone: a supervisor that lives may write into it meanwhile."""
    shutil.rmtree(directory, ignore_errors=True)
    return not directory.exists()


def words_of(process: psutil.Process) -> list[str]:
    """Return its command line; empty: it has ended."""
    try:
        return process.cmdline()
    except (psutil.NoSuchProcess, psutil.ZombieProcess):
        return []


def test_a_container_of_a_lost_directory_ends_though_its_supervisor_was_killed(open_path: Path) -> None:
    base = Path(tempfile.mkdtemp(prefix="gosched-docker-"))
    try:
        make_rootfs(base / "rootfs")
        with docker_daemon(base) as address:
            import_image(address, base / "rootfs", "busy")
            node = Node(open_path, "node", docker_host=address).start()
            client = docker.APIClient(base_url=address, version="auto")
            try:
                for name in ("first", "second"):
                    node.await_running(node.run(name, "sleep", "600", runtime="docker", image="busy"))
                supervisor = node.supervisor(node.ordered[0])
                node.agent.end(signal.SIGKILL)
                os.kill(supervisor.pid, signal.SIGKILL)
                wait_for(lambda: not lives(supervisor.pid))
                wait_for(lambda: is_removed(node.agent.data_dir))
                seen: list[int] = []
                assert len(client.containers()) == 2
                node.master.on_registration = lambda: seen.append(len(client.containers(all=True)))
                node.agent.start(node.master)
                assert seen[0] == 0
                assert node.agent.process is not None
                agent = psutil.Process(node.agent.process.pid)
                node.outcome(node.run("next", "true"))  # by now it looks for containers again, or has done so
                wait_for(lambda: not any("orphans" in words_of(child) for child in agent.children()))
            finally:
                client.close()
                node.close()
    finally:
        shutil.rmtree(base)
