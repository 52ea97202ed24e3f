"""Which MPI starts a program, and with which words."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gosched.agent.mpi.implementations import MPICH, OPEN_MPI, NoMpi, World, command_line, find, node_name, task_of


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a directory with the mpiexec of both, and nothing else in PATH."""
    for name, says in (("mpiexec.openmpi", "mpiexec.openmpi (OpenRTE) 4.1.4"), ("mpiexec", "HYDRA build details:")):
        _program(tmp_path / name, f"#!/bin/sh\necho '{says}'\n".encode())
    monkeypatch.setenv("PATH", str(tmp_path))
    return tmp_path


def _program(path: Path, contents: bytes) -> str:
    path.write_bytes(contents)
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(
    ("linked", "kind", "mpiexec"),
    [
        (b"libmpi.so.40", OPEN_MPI, "mpiexec.openmpi"),
        (b"libmpi_mpifh.so.20", OPEN_MPI, "mpiexec.openmpi"),
        (b"libmpich.so.12", MPICH, "mpiexec"),
        (b"libmpi.so.12", MPICH, "mpiexec"),
    ],
)
def test_a_program_is_started_by_the_mpi_that_it_islinked_with(
    programs: Path, linked: bytes, kind: str, mpiexec: str
) -> None:
    program = _program(programs / "solver", b"\x7fELF\0libc.so.6\0" + linked + b"\0")
    found = (kind, str(programs / mpiexec))
    assert find([program, "--steps", "3"], "") == found
    assert find(["/bin/sh", "-c", "echo now;OMP_NUM_THREADS=2 solver --steps 3&& echo done # twice"], "") == found
    assert find(["solver"], kind) == found


def test_what_cannot_be_started_says_why(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = _program(programs / "solver", b"\x7fELF\0libmpi.so.40\0")
    with pytest.raises(NoMpi, match="linked with Open MPI, and the job says implementation: mpich"):
        find([program], MPICH)
    with pytest.raises(NoMpi, match="does not show which one it is made for: name it with distributed"):
        find(["./script-of-mine"], "")
    (programs / "mpiexec.openmpi").unlink()
    assert find(["./script-of-mine"], "") == (MPICH, str(programs / "mpiexec")), "the only one that is there"
    with pytest.raises(NoMpi, match="no mpiexec of Open MPI in PATH"):
        find([program], "")
    monkeypatch.setenv("PATH", "")
    with pytest.raises(NoMpi, match="no mpiexec of Open MPI or MPICH in PATH"):
        find(["/bin/sh", "-c", "'unbalanced"], "")


def world(tmp_path: Path, *hosts: str) -> World:
    file = str(tmp_path / "nodes")
    return World(ranks=(2,) * len(hosts), hosts=hosts, nodes_file=file, launch_agent="/agent", rank=("rank",))


def test_each_task_is_a_node_of_its_own_though_two_are_on_one_host(tmp_path: Path) -> None:
    words = command_line(MPICH, "/mpiexec", world(tmp_path, "10.0.0.1", "10.0.0.1"))
    assert words[0] == "/mpiexec"
    assert words[-3:] == ["-n", "4", "rank"]
    assert words[words.index("-localhost") + 1] == "10.0.0.1"
    assert words[words.index("-launcher-exec") + 1] == "/agent"
    assert (tmp_path / "nodes").read_text() == f"{node_name(0)}:2\n{node_name(1)}:2\n"
    assert [task_of(node_name(task)) for task in (0, 1, 70_000)] == [0, 1, 70_000]


@pytest.mark.parametrize(
    ("hosts", "network"),
    [
        (("10.1.2.3", "10.1.2.9"), "10.1.2.0/28"),
        (("10.1.2.3",), "10.1.2.3/32"),
        (("127.0.0.1", "127.0.0.2"), "127.0.0.0/8"),
        (("10.0.0.1", "192.168.0.1"), ""),
        (("::1", "10.0.0.1"), ""),
    ],
)
def test_daemons_of_open_mpi_meet_in_the_network_that_the_nodes_share(
    tmp_path: Path, hosts: tuple[str, ...], network: str
) -> None:
    words = command_line(OPEN_MPI, "/mpiexec", world(tmp_path, *hosts))
    assert (words[words.index("oob_tcp_if_include") + 1] if "oob_tcp_if_include" in words else "") == network
    assert ("--allow-run-as-root" in words) == (os.getuid() == 0)


def test_what_the_job_sets_itself_is_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMPI_MCA_btl_tcp_if_include", "ib0")
    assert "btl_tcp_if_include" not in command_line(OPEN_MPI, "/mpiexec", world(tmp_path, "10.0.0.1"))
