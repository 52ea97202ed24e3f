"""MPI programs as they are: every rank in its own task, with Open MPI and with MPICH.

Needs their packages: mpicc.openmpi, mpicc.mpich, mpiexec.openmpi, mpiexec.hydra.
"""

from __future__ import annotations

import glob
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.client import GoSchedClient
from gosched.core.records.job import JobState

from .support import PATIENCE_S, goschedctl, until

SOURCE = Path(__file__).parents[2] / "examples" / "mpi_ring.c"
AGENT = AgentShape(resources={"cpu": 2, "memory": "4Gi"})
LONG_S = 2 * PATIENCE_S
BOTH = pytest.mark.parametrize("mpi", ["openmpi", "mpich"])


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the directory of the ring, built with each of the two."""
    built = tmp_path_factory.mktemp("mpi")
    for mpi in ("openmpi", "mpich"):
        subprocess.run([f"mpicc.{mpi}", "-o", str(built / mpi), str(SOURCE)], check=True, timeout=LONG_S)
    return built


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(masters=3, agents=[AGENT] * 3) as cluster:
        yield cluster


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[GoSchedClient]:
    with cluster.client() as client:
        yield client


def job(name: str, *words: object, count: int = 3, cpu: int = 2, distributed: str = "framework: mpi") -> str:
    run = ", ".join(f'"{word}"' for word in words)
    return (
        f"name: {name}\ncount: {count}\nresources: {{cpu: {cpu}}}\ndistributed: {{{distributed}}}\n"
        f"stop_grace: 5s\nrun: [{run}]\n"
    )


def logs(cluster: LocalCluster, name: str, task: int) -> str:
    endpoints = ",".join(master.grpc for master in cluster.masters.values())
    return goschedctl(endpoints, "logs", name, "--task", f"task/{task}").stdout


@BOTH
def test_the_ranks_of_a_program_are_one_world_over_three_nodes_each_in_its_own_task(
    cluster: LocalCluster, client: GoSchedClient, programs: Path, mpi: str
) -> None:
    client.submit(job(f"ring-{mpi}", programs / mpi))
    done = client.wait(f"ring-{mpi}", timeout=LONG_S)
    assert (done.state, [task.exit_code for task in done.tasks]) == (JobState.SUCCEEDED, [0, 0, 0])
    assert {task.node_id for task in done.tasks} == {"agent-1", "agent-2", "agent-3"}
    for rank, task in enumerate(done.tasks):
        assert f"rank {rank} of 3 on {task.node_id}\n" in logs(cluster, f"ring-{mpi}", rank)
        assert f"rank {rank} has seen all 3 around the ring" in logs(cluster, f"ring-{mpi}", rank)


@BOTH
def test_several_ranks_in_each_of_several_tasks_on_a_node_are_numbered_task_by_task(
    cluster: LocalCluster, client: GoSchedClient, programs: Path, mpi: str
) -> None:
    shell = f"{programs / mpi} && echo as rank $RANK of $WORLD_SIZE, $LOCAL_RANK here, by $GOSCHED_TASK_INDEX"
    distributed = f"framework: mpi, ranks_per_task: 2, implementation: {mpi}"
    client.submit(job(f"many-{mpi}", "sh", "-c", shell, count=2, cpu=1, distributed=distributed))
    assert client.wait(f"many-{mpi}", timeout=LONG_S).state is JobState.SUCCEEDED
    for task in (0, 1):
        said = logs(cluster, f"many-{mpi}", task)
        assert sorted(re.findall(r"rank (\d) of 4 on", said)) == [str(2 * task), str(2 * task + 1)]
        assert f"as rank {2 * task} of 4, 0 here, by {task}" in said


@BOTH
def test_a_rank_that_ends_alone_ends_the_job_with_its_code(client: GoSchedClient, programs: Path, mpi: str) -> None:
    client.submit(job(f"dies-{mpi}", programs / mpi, 600, 1, 23))
    done = client.wait(f"dies-{mpi}", timeout=LONG_S)
    assert (done.state, done.job.exit_code) == (JobState.FAILED, 23)
    assert [task.state.name for task in done.tasks] == ["KILLED", "FAILED", "KILLED"]


def test_a_cancelled_job_leaves_nothing_of_mpi_behind(client: GoSchedClient, programs: Path) -> None:
    before = temporary_files()
    client.submit(job("long", programs / "openmpi", 600))
    until(lambda: len(running(programs)) == 3, "all ranks run", LONG_S)
    client.cancel("long")
    assert client.wait("long", timeout=LONG_S).state is JobState.CANCELLED
    assert running(programs) == []
    assert not [process for process in psutil.process_iter(["name"]) if process.info["name"] in ("orted", "mpiexec")]
    assert temporary_files() <= before


@BOTH
def test_the_ranks_of_a_cancelled_job_have_their_grace(
    cluster: LocalCluster, client: GoSchedClient, programs: Path, mpi: str
) -> None:
    script = programs / f"saves-{mpi}"
    script.write_text(
        "#!/bin/sh\ntrap 'sleep 1; echo rank $RANK has saved; exit 0' TERM\necho waits\nwhile :; do sleep 0.1; done\n"
    )
    script.chmod(0o755)
    name = f"saves-{mpi}"
    client.submit(job(name, script, distributed=f"framework: mpi, implementation: {mpi}"))
    until(lambda: all(logs(cluster, name, task) for task in range(3)), "all ranks run", LONG_S)
    client.cancel(name)
    done = client.wait(name, timeout=LONG_S)
    assert done.state is JobState.CANCELLED
    for task in range(3):
        assert f"rank {task} has saved" in logs(cluster, name, task)


@BOTH
def test_ranks_go_on_while_another_master_takes_over(
    cluster: LocalCluster, client: GoSchedClient, programs: Path, mpi: str
) -> None:
    client.submit(job(f"over-{mpi}", programs / mpi, 6))
    until(lambda: len(running(programs)) == 3, "all ranks run", LONG_S)
    leader = cluster.masters[client.get_status().leader]
    leader.kill()
    try:
        done = client.wait(f"over-{mpi}", timeout=LONG_S)
        assert (done.state, done.job.attempt) == (JobState.SUCCEEDED, 1)
    finally:
        cluster.restart(leader)


def test_a_program_whose_mpi_is_not_there_says_so(cluster: LocalCluster, client: GoSchedClient, programs: Path) -> None:
    client.submit(job("mixed", programs / "openmpi", distributed="framework: mpi, implementation: mpich"))
    assert client.wait("mixed", timeout=LONG_S).state is JobState.FAILED
    endpoints = ",".join(master.grpc for master in cluster.masters.values())
    said = goschedctl(endpoints, "logs", "mixed", "--task", "task/0")
    assert "the program is linked with Open MPI, and the job says implementation: mpich" in said.stdout + said.stderr


def temporary_files() -> set[str]:
    """Return where daemons of Open MPI keep their files, outside of the tasks' own directories."""
    return set(glob.glob(f"{tempfile.gettempdir()}/ompi.*/*"))


def running(programs: Path) -> list[psutil.Process]:
    """Return the processes of the ranks themselves."""
    psutil.process_iter.cache_clear()  # a process that was seen before its exec would keep the program that it had
    return [p for p in psutil.process_iter(["exe"]) if (p.info["exe"] or "").startswith(str(programs))]
