"""Every example is a job file that is accepted, and written back as the same jobs."""

from __future__ import annotations

from pathlib import Path

import pytest

from gosched.config.jobs.jobfile import parse_job_file

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
EXPECTED = {"array", "dask", "docker", "gang", "mpi", "notebook", "pytorch", "ray", "spark"}


def test_there_is_an_example_of_each_framework() -> None:
    assert {example.stem for example in EXAMPLES} >= EXPECTED


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: str(example.stem))
def test_an_example_is_a_job_file_with_a_word_on_what_it_shows(example: Path) -> None:
    text = example.read_text()
    assert text.startswith("# "), "its first line says what it is"
    assert parse_job_file(text, example.name)
