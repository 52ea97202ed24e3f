"""What salloc makes of its options, without a cluster; tests/integration/test_slurm_salloc.py has one."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gosched.cli.main import run_cli
from gosched.config.errors import ConfigError
from gosched.config.jobs.draft import JobDraft
from gosched.config.jobs.jobfile import read_draft
from gosched.integrations.slurm.batch import Batch, read
from gosched.integrations.slurm.convert import held_for, job_of, options_of, read_command_line
from gosched.integrations.slurm.options import SALLOC, SBATCH


def job(*words: str, env: dict[str, str] | None = None) -> tuple[dict[str, Any], Batch, list[str]]:
    """Return the job, what its tasks are told, and the command."""
    line, rest = read_command_line(words, SALLOC)
    script = held_for(rest)
    found = job_of(options_of(line, script, env or {}), script, env or {}, "/work", "0a1b2c", list)
    (spec,) = read_draft(JobDraft(text=json.dumps(found).encode(), source="it"))
    return found, read(spec.groups[0].command[1]), rest


def test_an_allocation_is_a_job_that_starts_once_and_writes_no_file() -> None:
    found, batch, command = job("-N2", "--ntasks-per-node=4", "-p", "a.b", "-t", "10", "./fit", "-n", "3")
    assert command == ["./fit", "-n", "3"]
    assert (found["name"], found["labels"]["slurm/name"]) == ("fit-0a1b2c", "fit")
    assert (found["queue"], found["timeout"], found["retry"]) == ("a.b", "600s", {"max": 0, "when": []})
    assert (batch.groups, batch.output, batch.chdir) == (((2, 4),), "", "/work")


def test_without_a_command_it_has_slurms_name_and_variables_of_salloc_count() -> None:
    env = {"SALLOC_PARTITION": "mine", "SALLOC_TIMELIMIT": "5", "SBATCH_PARTITION": "other", "SALLOC_ARRAY_INX": "1-3"}
    found, _, command = job("-J", "x", "--time=7", env=env)
    assert (found["labels"]["slurm/name"], found["queue"], found["timeout"], command) == ("x", "mine", "420s", [])
    assert job()[0]["labels"]["slurm/name"] == "interactive"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--no-shell"], "--no-shell is refused: an allocation lasts as long as its command"),
        (["-I"], "--immediate is refused: goschedctl plan"),
        (["-t5", "--signal=USR1@60"], "--signal is refused: let the command watch its time"),
        (["--array=1-3"], "there is no option --array"),
        (["-o", "x"], "there is no option -o"),
        (["--ntasks=0"], "--ntasks: expected a number above 0"),
    ],
)
def test_what_an_allocation_cannot_be_is_an_error(
    words: list[str], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ConfigError, match=problem):
        job(*words)
    assert run_cli(["salloc", *words]) == 2
    assert problem in capsys.readouterr().err


def test_each_option_is_in_one_row() -> None:
    for table in (SALLOC, SBATCH):
        names = [option.name for option in table]
        letters = [option.short for option in table if option.short]
        assert (len(names), len(letters)) == (len({*names}), len({*letters}))
