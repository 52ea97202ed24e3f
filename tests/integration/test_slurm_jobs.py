"""Batch scripts on a real cluster of three nodes: steps, signals, files, arrays, MPI, and commands by Slurm's names.

Needs the packages of Open MPI and MPICH, as test_mpi.py does.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.cli.main import run_cli
from gosched.core.records.job import JobState

from .support import PATIENCE_S, until

SOURCE = Path(__file__).parents[2] / "examples" / "mpi_ring.c"
GOSCHEDCTL = str(Path(sys.executable).with_name("goschedctl"))


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(masters=1, agents=[AgentShape(resources={"cpu": 4, "memory": "4Gi"})] * 3) as running:
        yield running


class User:
    """Somebody with a directory of scripts."""

    def __init__(self, cluster: LocalCluster, home: Path) -> None:
        self.home = home
        self.endpoints = cluster.endpoints
        self.env = {**os.environ, "GOSCHED_ENDPOINTS": cluster.endpoints}

    def run(self, *words: str, program: str = GOSCHEDCTL) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [program, *words],
            cwd=self.home, env=self.env, capture_output=True, text=True, timeout=2 * PATIENCE_S, check=False,
        )  # fmt: skip

    def submit(self, *options: str, script: str = "") -> str:
        """Submit a script, and return the job's id."""
        if script:
            (self.home / "job.sh").write_text(f"#!/bin/bash\n{script}\n")
        done = self.run("sbatch", "--parsable", *options, *(["job.sh"] if script else []))
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def result(self, *options: str, script: str) -> tuple[int, str]:
        """Run a script to its end, and return its exit code and what it wrote."""
        name = f"out-{os.urandom(4).hex()}"
        (self.home / f"{name}.sh").write_text(f"#!/bin/bash\n{script}\n")
        done = self.run("sbatch", "--wait", "-o", name, *options, f"{name}.sh")
        assert "Submitted batch job" in done.stdout, done.stderr
        return done.returncode, (self.home / name).read_text()


@pytest.fixture
def user(cluster: LocalCluster, tmp_path: Path) -> User:
    return User(cluster, tmp_path)


def marked(word: str) -> list[psutil.Process]:
    """Return the processes that have the word in their command line, but for what is around them."""
    return [p for p in psutil.process_iter(["cmdline", "name"]) if p.info["cmdline"] == ["sleep", word]]


def test_a_srun_that_does_not_read_holds_up_no_other_step(user: User) -> None:
    """What the first one writes is more than all buffers on its way hold."""
    script = (
        "srun -n1 --overlap head -c 40000000 /dev/zero | (sleep 1; srun -n1 --overlap echo inner </dev/null; wc -c)"
    )
    code, said = user.result("-N1", "-n2", "--time=5", script=script)
    assert (code, said.split()) == (0, ["inner", "40000000"])


def test_steps_share_the_places_of_the_job_and_wait_for_each_other(user: User) -> None:
    script = """
    for item in 1 2 3 4 5; do
        srun -n1 -N1 --exclusive sh -c "echo begins $item >>log; sleep 0.3; echo ends $item >>log" &
    done
    wait
    awk '/begins/ { if (++now > most) most = now } /ends/ { now-- } END { print "most at once:", most }' log
    srun -n2 sleep 1 & sleep 0.5; srun --overlap -n1 echo overlaps; wait
    srun -n3 true; echo too many: $?
    srun -w nowhere true; echo no such node: $?
    srun -K -n2 sh -c '[ $SLURM_PROCID = 0 ] && exit 3; sleep 600'; echo killed: $?
    srun -l -n2 sh -c 'echo out; echo err >&2' 2>&1 | sort
    srun -n2 -o rank-%t.txt sh -c 'echo $SLURM_PROCID is here'; cat rank-0.txt rank-1.txt
    srun -n1 head -c 3000000 /dev/zero | wc -c
    """
    code, out = user.result("--ntasks=2", script=script)
    lines = [line for line in out.splitlines() if "task" not in line]
    assert code == 0
    assert lines == [
        "most at once: 2", "overlaps", "too many: 1",
        "srun: nowhere: no node of this job; it has " + out.partition("; it has ")[2].partition("\n")[0],
        "no such node: 1", "killed: 137", "0: err", "0: out", "1: err", "1: out", "0 is here", "1 is here", "3000000",
    ]  # fmt: skip


def test_the_input_of_a_step_goes_to_the_ranks_that_read_and_keeps_nothing_waiting(user: User) -> None:
    script = """
    seq 300000 | srun -n3 -N3 sh -c 'sum=$(md5sum); sleep 0.$SLURM_PROCID; echo all $sum'
    seq 300000 | srun -n2 sh -c 'head -n 1 | sed "s/^/begin /"'
    yes | srun -n2 true && echo not read
    srun -n1 echo stays open < <(sleep 600)
    yes | srun -n3 sh -c '[ $SLURM_PROCID = 1 ] && exec sleep 1; [ $SLURM_PROCID = 2 ] && kill -9 $$; head -c 2'
    echo ended with $?
    """
    code, said = user.result("-N3", "--ntasks-per-node=1", "--time=5", script=script)
    assert code == 0
    lines = [line for line in said.splitlines() if not line.startswith("srun:")]
    assert lines[:3] == ["all daef482d6c698625ab13d987d14e8781 -"] * 3
    assert lines[3:] == ["begin 1", "begin 1", "not read", "stays open", "y", "ended with 137"]


@pytest.mark.parametrize(
    ("option", "why"),
    [
        ("-i 2", "--input: the ranks of the step are 0 to 1"),
        ("-i no/such", "no/such: No such file or directory"),
        ("-i /tmp", "/tmp is a directory"),
        ("-i in-%t", "a file for each rank is read by the rank"),
    ],
)
def test_an_input_that_no_rank_can_have_is_an_error(user: User, option: str, why: str) -> None:
    code, said = user.result("-N1", "-n2", "--time=5", script=f"echo x | srun {option} cat")
    assert (code, why in said) == (1, True), said


def test_nothing_of_a_job_outlives_its_script_or_its_cancellation(user: User, cluster: LocalCluster) -> None:
    code, _ = user.result("-N2", "--ntasks-per-node=1", script="srun sleep 1001 & sleep 1002 & sleep 1; exit 5")
    assert code == 5
    script = "trap 'echo told >told; exit 0' TERM\nsrun sleep 1003 & wait"
    job = user.submit("-N2", "--ntasks-per-node=1", script=script)
    until(lambda: len(marked("1003")) == 2, "all ranks run")
    assert user.run("scancel", job).returncode == 0
    with cluster.client() as client:
        assert client.wait(job, timeout=PATIENCE_S).state is JobState.CANCELLED
    assert (user.home / "told").exists()
    until(lambda: not [*marked("1001"), *marked("1002"), *marked("1003")], "no rank is left")


def test_a_killed_srun_takes_its_ranks_with_it(user: User) -> None:
    code, out = user.result("-n2", script="srun sleep 1004 & sleep 1; kill -9 $!; wait; srun echo goes on")
    assert (code, out.count("goes on")) == (0, 2)
    until(lambda: not marked("1004"), "its ranks are gone")


def test_a_signal_comes_before_the_time_limit(user: User) -> None:
    to_script = "trap 'echo saves; exit 3' USR1; sleep 600 & wait"
    to_ranks = """srun sh -c "trap 'echo rank saves; exit 4' USR2; sleep 600 & wait" """
    with ThreadPoolExecutor() as pool:
        first = pool.submit(user.result, "--time=1", "--signal=B:USR1@58", script=to_script)
        second = pool.submit(user.result, "--time=1", "--signal=USR2@57", script=to_ranks)
    assert first.result() == (3, "saves\n")
    assert second.result()[0] == 4
    assert "rank saves" in second.result()[1]


def test_arrays_dependencies_and_file_names_are_those_of_slurm(user: User) -> None:
    script = "echo $SLURM_ARRAY_TASK_ID; exit 1"
    array = user.submit("-H", "--array=2,5", "-J", "sweep", "-o", "%x-%A-%2a.txt", script=script)
    after = user.submit("-d", f"afternotok:{array}", "--open-mode=append", "-o", "%j.txt", "--wrap", "echo after >&2")
    never = user.submit("-d", f"afterok:{array}", "--wrap", "true")
    assert user.run("scontrol", "release", array).returncode == 0
    assert user.run("job", "wait", after, "--timeout", "90s").returncode == 0
    assert sorted(file.name for file in user.home.glob("sweep-*")) == [f"sweep-{array}-02.txt", f"sweep-{array}-05.txt"]
    assert (user.home / f"sweep-{array}-05.txt").read_text() == "5\n"
    assert (user.home / f"{after}.txt").read_text() == "after\n"
    until(lambda: user.run("sacct", "-nPj", never, "-o", "State").stdout == "CANCELLED\n", "it can never start")


def test_a_directory_that_the_node_lacks_is_said_and_the_output_is_in_the_logs(user: User) -> None:
    job = user.submit("--chdir=/no/such/directory", "--wrap", "pwd; srun pwd")
    assert user.run("job", "wait", job, "--timeout", "90s").returncode == 0
    said = user.run("logs", job)
    assert "/no/such/directory is not on this node" in said.stdout + said.stderr
    assert said.stdout.count("/work\n") == 2


def test_the_commands_show_and_change_jobs_in_familiar_columns(
    user: User, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # where the output of jobs goes
    assert user.run("slurm-aliases", "install", str(tmp_path)).returncode == 0
    assert user.run("-h", program=str(tmp_path / "squeue")).returncode == 0

    def slurm(name: str, *words: str) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as out:  # in this process, which takes a tenth of the time
            assert run_cli(["--endpoints", user.endpoints, name, *words]) == 0
        return out.getvalue()

    runs = slurm("sbatch", "--parsable", "-N2", "-J", "long one", "--time=5", "--wrap", "srun sleep 600").strip()
    held = slurm("sbatch", "--parsable", "-H", "--comment=by hand", "--wrap", "true").strip()
    until(lambda: slurm("squeue", "-h", "-j", runs, "-o", "%t") == "R\n", "it runs")
    assert " ".join(slurm("squeue").split()[:8]) == "JOBID PARTITION NAME USER ST TIME NODES NODELIST(REASON)"
    row = slurm("squeue", "--me", "-h", "-t", "R", "-o", "%i|%j|%P|%D|%l|%T|%C").strip()
    assert row == f"{runs}|long one|default|2|5:00|RUNNING|2"
    assert slurm("squeue", "-h", "-j", held, "-o", "%R %k").strip() == "(HELD) by hand"
    shown = slurm("scontrol", "-o", "show", "job", runs)
    assert f"JobId={runs} JobName=long one" in shown
    assert "NumNodes=2 NumCPUs=2 NumTasks=2" in shown
    nodes = slurm("squeue", "-h", "-j", runs, "-o", "%N").strip()
    used = slurm("scontrol", "show", "hostnames", nodes).split()
    assert set(slurm("sinfo", "-h", "-N", "-t", "mix,alloc", "-o", "%N").split()) == set(used)
    assert slurm("sinfo", "-h", "-o", "%D %c").split().count("4") == 3
    slurm("scontrol", "release", held)
    until(lambda: slurm("sacct", "-nPj", held, "-o", "State,ExitCode") == "COMPLETED|0:0\n", "it was released")
    slurm("scancel", "--me", "-n", "long one")
    until(
        lambda: slurm("sacct", "-nPXa", "-j", runs, "-o", "JobName,State") == "long one|CANCELLED\n", "it is cancelled"
    )
    assert slurm("squeue", "-h") == ""
    assert slurm("squeue", "-h", "-j", runs) == "", "it has ended"
    unknown = user.run("squeue", "-j", "j-nope")
    assert unknown.returncode != 0
    assert "j-nope" in unknown.stderr


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_srun_starts_an_mpi_program_as_one_world_over_two_nodes(user: User, mpi: str) -> None:
    program = user.home / mpi
    subprocess.run([f"mpicc.{mpi}", "-o", str(program), str(SOURCE)], check=True, timeout=PATIENCE_S)
    script = f"srun ./{mpi} && srun -n3 sh -c 'echo plain $SLURM_PROCID'"
    code, out = user.result("-N2", "--ntasks-per-node=2", script=script)
    assert code == 0
    assert [f"rank {rank} has seen all 4 around the ring\n" in out for rank in range(4)] == [True] * 4
    assert {line.rpartition(" on ")[2] for line in out.splitlines() if line.startswith("rank 3 of 4 on")} != {""}
    assert sorted(line for line in out.splitlines() if "plain" in line) == ["plain 0", "plain 1", "plain 2"]


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_a_failed_rank_of_mpi_ends_its_step_with_its_code(user: User, mpi: str) -> None:
    program = user.home / mpi
    subprocess.run([f"mpicc.{mpi}", "-o", str(program), str(SOURCE)], check=True, timeout=PATIENCE_S)
    assert user.result("-N2", "--ntasks-per-node=2", script=f"srun ./{mpi} 600 1 23")[0] == 23


def test_the_mpirun_of_a_script_finds_the_nodes_by_srun(user: User) -> None:
    program = user.home / "ring"
    subprocess.run(["mpicc.openmpi", "-o", str(program), str(SOURCE)], check=True, timeout=PATIENCE_S)
    line = "mpiexec.openmpi --allow-run-as-root --oversubscribe ./ring"
    code, out = user.result("-N2", "--ntasks-per-node=2", script=line)
    assert code == 0
    assert out.count("has seen all 4 around the ring") == 4
    assert len({line.rpartition(" on ")[2] for line in out.splitlines() if " of 4 on " in line}) == 2


def test_a_job_lands_on_the_nodes_that_it_names_and_stays_off_those_that_it_excludes(user: User) -> None:
    where = "srun sh -c 'echo $GOSCHED_NODE' | sort | xargs"
    assert user.result("-w", "agent-2", script=where) == (0, "agent-2\n")
    assert user.result("-w", "agent-[2-3]", script=where) == (0, "agent-2 agent-3\n")
    assert user.result("-x", "agent-[1-2]", script=where) == (0, "agent-3\n")
    refused = user.run("sbatch", "-w", "agent-[3-4]", "--wrap", "true")
    assert refused.returncode != 0
    assert "--nodelist: there is no node agent-4" in refused.stderr


def test_a_job_of_whole_nodes_keeps_others_off_them(user: User, cluster: LocalCluster) -> None:
    """Each job alone would leave room for the other."""
    script = "echo $SLURM_CPUS_ON_NODE $SLURM_JOB_CPUS_PER_NODE ${SLURM_CPUS_PER_TASK:-none}; srun -n4 sleep 1005"
    shown = user.run("sbatch", "--test-only", "--exclusive", "-N2", "--wrap", "true")
    assert "cpu: 4\n" in shown.stdout, shown.stderr
    whole = user.submit("--exclusive", "-w", "agent-2", "-o", "whole.txt", script=script)
    until(lambda: len(marked("1005")) == 4, "its ranks run")
    assert (user.home / "whole.txt").read_text().splitlines()[:1] == ["4 4 none"]
    assert user.run("squeue", "-h", "-w", "agent-2", "-o", "%i %C").stdout.strip() == f"{whole} 4"
    assert user.run("squeue", "-h", "-w", "agent-[1,3]").stdout == ""
    small = user.submit("-w", "agent-2", "-c1", "-o", "small.txt", "--wrap", "echo $GOSCHED_NODE")
    elsewhere = user.result("-x", "agent-2", "-c1", script="true")
    assert elsewhere[0] == 0
    with cluster.client() as client:
        assert client.get_job(small).state is JobState.PENDING
        assert user.run("scancel", whole).returncode == 0
        assert client.wait(small, timeout=PATIENCE_S).state is JobState.SUCCEEDED
    assert (user.home / "small.txt").read_text() == "agent-2\n"
