"""`distributed` of MPI programs in job files."""

from __future__ import annotations

import pytest

from gosched.config import ConfigError
from gosched.config.jobs.jobfile import parse_job_file
from gosched.config.jobs.writer import job_text
from gosched.core.features import FeatureLevel
from gosched.core.rules.jobs import check_job
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.task_group import Framework


def job(distributed: str, more: str = "run: ./solver") -> JobSpec:
    return parse_job_file(f"name: a\ncount: 2\ndistributed: {{{distributed}}}\n{more}\n", "f")[0]


@pytest.mark.parametrize(
    ("distributed", "ranks", "implementation"),
    [
        ("framework: mpi", 1, ""),
        ("framework: mpi, launcher: mpiexec, ranks_per_task: 64", 64, ""),
        ("framework: mpi, implementation: mpich", 1, "mpich"),
        ("framework: mpi, launcher: none", 0, ""),
        ("framework: torch", 0, ""),
    ],
)
def test_gosched_starts_the_ranks_of_mpi_unless_the_command_does(
    distributed: str, ranks: int, implementation: str
) -> None:
    spec = job(distributed)
    (group,) = spec.groups
    assert (group.mpi_ranks, group.mpi_implementation) == (ranks, implementation)
    again = parse_job_file(job_text(spec), "written")
    assert again == [spec]


@pytest.mark.parametrize(
    ("distributed", "more", "words"),
    [
        (
            "framework: mpi",
            "run: mpirun -n 4 ./solver",
            "f:4: run: gosched runs mpirun itself: write the program alone",
        ),
        ("framework: mpi", "run: [/usr/bin/mpiexec.hydra, ./x]", "gosched runs mpiexec.hydra itself"),
        (
            "framework: mpi",
            "image: debian:12\nrun: ./x",
            "mpiexec does not start ranks in runtime docker: add launcher",
        ),
        ("framework: torch, ranks_per_task: 2", "run: x", "ranks_per_task: is of framework: mpi"),
        ("framework: mpi, launcher: none, implementation: mpich", "run: x", "implementation: is of framework: mpi"),
        ("framework: torch, launcher: mpiexec", "run: x", "mpiexec starts MPI programs: add framework: mpi"),
        ("framework: mpi, ranks_per_task: 0", "run: x", "ranks_per_task"),
        ("framework: mpi, implementation: lam", "run: x", "implementation"),
        ("framework: mpi", "gang: {min: 1}\nrun: x", "an MPI program starts with all of its ranks: leave min out"),
    ],
)
def test_what_cannot_be_started_is_refused_with_what_to_do(distributed: str, more: str, words: str) -> None:
    with pytest.raises(ConfigError) as refused:
        job(distributed, more)
    assert words in str(refused.value)


def test_all_groups_of_a_job_are_one_world() -> None:
    groups = "tasks:\n  a: {run: ./a, distributed: {framework: mpi}}\n  b: {run: ./b}\n"
    with pytest.raises(ConfigError, match="group b is none: all tasks of the job are one world"):
        parse_job_file(f"name: a\n{groups}", "f")
    (spec,) = parse_job_file(
        f"name: a\n{groups.replace('{run: ./b}', '{run: ./b, distributed: {framework: mpi}}')}", "f"
    )
    assert [group.framework for group in spec.groups] == [Framework.MPI] * 2


def test_masters_of_the_release_before_get_no_such_job() -> None:
    found = check_job(job("framework: mpi"), FeatureLevel.FIRST)
    assert found is not None
    assert "this feature level starts no MPI ranks" in found.words
    assert check_job(job("framework: mpi, launcher: none"), FeatureLevel.FIRST) is None
