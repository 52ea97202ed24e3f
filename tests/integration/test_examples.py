"""Examples that need nothing but a cluster, and the MPI of Debian, do what they say."""

from __future__ import annotations

import subprocess
from pathlib import Path

from gosched.cli.local_cluster import AgentShape, LocalCluster

from .support import PATIENCE_S, goschedctl

EXAMPLES = Path(__file__).parents[2] / "examples"


def test_the_sweep_and_the_ring_of_the_examples_succeed(tmp_path: Path) -> None:
    program = tmp_path / "mpi_ring"
    build = ["mpicc.openmpi", "-o", str(program), str(EXAMPLES / "mpi_ring.c")]
    subprocess.run(build, check=True, timeout=PATIENCE_S)
    ring = tmp_path / "mpi.yaml"
    ring.write_text((EXAMPLES / "mpi.yaml").read_text().replace("/shared/mpi_ring", str(program)))
    agents = [AgentShape(resources={"cpu": 2, "memory": "4Gi"})] * 3
    with LocalCluster(masters=1, agents=agents) as cluster:
        endpoints = cluster.masters["master-1"].grpc
        for file in (EXAMPLES / "array.yaml", ring):
            done = goschedctl(endpoints, "submit", "--wait", str(file), timeout_s=2 * PATIENCE_S)
            assert done.returncode == 0, done.stderr
        assert "element 5 with LR=0.01 and SEED=2" in goschedctl(endpoints, "logs", "sweep.5").stdout
        said = goschedctl(endpoints, "logs", "ring").stdout
        assert all(f"rank {rank} has seen all 3 around the ring" in said for rank in range(3))
