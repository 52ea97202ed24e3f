"""Batch scripts of Slurm's users through a real Slurm and through gosched: the same ranks, places, variables and codes.

Needs root, and Slurm with MUNGE (Debian: slurm-wlm, munge). Both have three nodes of 64 CPUs, as declared.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.integrations.slurm.hostlist import compressed, expanded
from tests.integrations.slurm_scripts import CASES, Case, tools_for_scripts
from tools.slurm import Slurm, missing, slurm

from .support import PATIENCE_S

NODES, CPUS = 3, 64  # so many that no script waits for another, nor is placed elsewhere for it
AT_ONCE = {"slurm": 20, "gosched": 4}  # Slurm's sbatch looks every ten seconds whether its job has ended
COMPARED = [case for case in CASES if case.compared]
#: What is of Slurm's own installation, of options without effect, or not the same by design.
_OF_SLURM_ALONE = {
    "SLURM_HINT", "SLURM_THREADS_PER_CORE",
    "SLURM_CONF", "SLURM_NODE_ALIASES", "SLURM_PRIO_PROCESS", "SLURM_TOPOLOGY_ADDR", "SLURM_TOPOLOGY_ADDR_PATTERN",
    "SLURM_WORKING_CLUSTER",
}  # fmt: skip
_OTHER_VALUES = {"SLURM_CLUSTER_NAME", "SLURM_JOB_PARTITION", "SLURM_TASK_PID", "SLURM_JOB_ID", "SLURM_JOBID"}
_OF_ELEMENTS = {"SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"}
_SAYS_OTHERWISE = re.compile(r"^(srun|slurmstepd\S*|gosched): ", re.MULTILINE)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """What a script did."""

    code: int
    #: What each of its jobs wrote, by the name of its file without the job's id, sorted.
    outputs: tuple[tuple[str, ...], ...]
    #: SLURM_ variables of the script; of an array, those of one element.
    variables: dict[str, str]


@pytest.fixture(scope="module")
def real() -> Iterator[Slurm]:
    lacking = missing()
    assert not lacking, f"{', '.join(lacking)} is missing: tools/integration_tools.sh installs Slurm"
    with slurm(nodes=NODES, cpus=CPUS) as running:
        yield running


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    agents = [AgentShape(resources={"cpu": CPUS, "memory": "64Gi"})] * NODES
    with LocalCluster(masters=1, agents=agents) as running:
        yield running


@pytest.fixture(scope="module")
def results(real: Slurm, cluster: LocalCluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Ran, Ran]]:
    """Run all scripts through both."""
    tools = tmp_path_factory.mktemp("tools")
    tools_for_scripts(tools)
    path = f"{tools}:{os.environ['PATH']}"
    own = shutil.which("goschedctl", path=str(Path(sys.executable).parent))
    assert own is not None
    commands = {
        "slurm": (["sbatch"], {**real.environment, "PATH": path}),
        "gosched": ([own, "sbatch"], {**os.environ, "PATH": path, "GOSCHED_ENDPOINTS": cluster.endpoints}),
    }

    folders = {
        (kind, case.name): tmp_path_factory.mktemp(f"{kind}-{case.name}") for kind in commands for case in COMPARED
    }

    def run_all(kind: str) -> list[Ran]:
        words, env = commands[kind]
        with ThreadPoolExecutor(AT_ONCE[kind]) as pool:
            return list(pool.map(lambda case: run(case, words, env, folders[kind, case.name]), COMPARED))

    with ThreadPoolExecutor(2) as pool:
        theirs, ours = pool.map(run_all, ("slurm", "gosched"))
    return {case.name: pair for case, pair in zip(COMPARED, zip(theirs, ours, strict=True), strict=True)}


def run(case: Case, words: list[str], env: dict[str, str], folder: Path) -> Ran:
    """Submit a script, wait for it, and read what it wrote. Its variables are written by a line behind the options."""
    *head, last = re.split(r"(?m)^(?!#)", case.text, maxsplit=1)
    spy = "import os; os.system('env >variables')\n" if "python" in case.text.partition("\n")[0] else "env >variables\n"
    (folder / "job.sh").write_text("".join([*head, spy, last]))
    done = subprocess.run(
        [*words, "--wait", "--parsable", "--time=1", "job.sh", "one", "two"],
        cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.stdout.strip(), done.stderr
    files = sorted([*folder.glob("slurm-*.out"), *folder.glob("logs-*.txt")], key=lambda file: file.stat().st_size)
    lines = (folder / "variables").read_text().splitlines()
    found = dict(line.split("=", 1) for line in lines if line.startswith("SLURM"))
    nodes = expanded(found["SLURM_JOB_NODELIST"])
    return Ran(
        code=done.returncode,
        outputs=tuple(sorted(tuple(sorted(_comparable(file.read_text(), nodes))) for file in files)),
        variables={
            name: value if name == "SLURM_SUBMIT_HOST" else _named(value, nodes).replace(str(folder), "FOLDER")
            for name, value in found.items()
        },
    )


def _comparable(text: str, nodes: list[str]) -> list[str]:
    """Return the lines that scripts and ranks wrote; what Slurm and gosched say themselves is in other words."""
    return [_named(line, nodes) for line in text.splitlines() if not _SAYS_OTHERWISE.match(line)]


def _named(text: str, nodes: list[str]) -> str:
    """Name nodes by their places in the job."""
    for place, name in enumerate(nodes):
        text = re.sub(rf"(?<![\w-]){name}(?![\w-])", f"node{place}", text)
    return text.replace(compressed(nodes), "ALL")


@pytest.mark.parametrize("case", COMPARED, ids=lambda case: case.name)
def test_a_script_does_the_same_in_both(results: dict[str, tuple[Ran, Ran]], case: Case) -> None:
    theirs, ours = results[case.name]
    assert ours.code == theirs.code
    assert ours.outputs == theirs.outputs
    different = _OF_SLURM_ALONE | _OTHER_VALUES | _OF_ELEMENTS
    assert {name: value for name, value in ours.variables.items() if name not in different} == {
        name: value for name, value in theirs.variables.items() if name not in different
    }
    assert ours.variables.keys() >= _OTHER_VALUES
