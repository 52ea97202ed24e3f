"""Formats, ids, states and choices of the commands by Slurm's names; and where ranks of steps go."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest

from gosched.api.job_row import JobRow, row_of
from gosched.cli.main import run_cli
from gosched.config.errors import ConfigError
from gosched.core.records.job import Children, Job, JobState
from gosched.core.spec.array import Array
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import GangPolicy
from gosched.core.spec.task_group import TaskGroup
from gosched.integrations.slurm.columns import by_letters, by_names, lines, moment, span
from gosched.integrations.slurm.command_line import Given, read_words
from gosched.integrations.slurm.query_options import SCANCEL, SQUEUE
from gosched.integrations.slurm.queue import SACCT_COLUMNS, SQUEUE_COLUMNS, Line, choice_of, ids, since_ms, states
from gosched.integrations.slurm.steps import DoesNotFit, Room, StepRequest
from gosched.integrations.slurm.variables import nodes_of


def line(state: JobState = JobState.RUNNING, **changes: object) -> Line:
    group = TaskGroup(name="nodes", count=2, command=("true",))
    spec = JobSpec(name="a-1", queue="q", labels=(("slurm/name", "a"),), gang=GangPolicy(min_tasks=2), groups=(group,))
    row: JobRow = row_of(Job(id="j-1", spec=spec, state=state, sequence=1, submitted_at_ms=1000, placed_at_ms=2000))
    return Line(row=replace(row, **changes), nodes=("n1", "n2"), now_ms=3_662_000)  # type: ignore[arg-type]


def test_a_format_of_letters_is_cut_filled_and_aligned_as_slurm_does() -> None:
    form = by_letters("%.6i|%3j|%T %M %R", SQUEUE_COLUMNS, "squeue")
    shown = lines(form, [line()], header=True)
    assert shown == [" JOBID|NAM|STATE TIME NODELIST(REASON)", "   j-1|a  |RUNNING 1:01:00 n[1-2]"]


def test_a_job_that_begins_later_has_slurms_reason_and_its_begin_as_its_start() -> None:
    later = line(JobState.PENDING, wait_code="BEGIN", placed_at_ms=0, begin_ms=7_200_000)
    shown = lines(by_letters("%R %r %S", SQUEUE_COLUMNS, "squeue"), [later], header=False)
    assert shown == [f"(BeginTime) BeginTime {moment(7_200_000)}"]
    assert line(JobState.PENDING, placed_at_ms=0, begin_ms=3_600_000).start_ms == 0, "it has begun, and waits"
    assert (line(JobState.PENDING, wait_code="QUEUED").reason, line().reason) == ("QUEUED", "None")


@pytest.mark.parametrize("text", ["%!", "%", "nothing", "%i %9", "%~i"])
def test_a_format_that_is_none_is_an_error(text: str) -> None:
    with pytest.raises(ValueError, match="expected columns"):
        by_letters(text, SQUEUE_COLUMNS, "squeue")


def test_a_column_that_is_not_there_is_an_error_that_names_those_that_are() -> None:
    with pytest.raises(ValueError, match="squeue has no column %z here; it has %A %a"):
        by_letters("%z", SQUEUE_COLUMNS, "squeue")
    with pytest.raises(ValueError, match="sacct has no column 'MaxRSS' here; it has JobID"):
        by_names("JobID,MaxRSS", SACCT_COLUMNS, "sacct")


def test_a_format_of_names_has_widths_or_a_delimiter() -> None:
    failed = line(JobState.FAILED, exit_code=137, reason="TIMEOUT")
    plain = by_names("jobid,State,ExitCode", SACCT_COLUMNS, "sacct", delimiter="|", ends=True)
    assert lines(plain, [failed], header=False) == ["j-1|TIMEOUT|0:9|"]
    wide = by_names("JobName%4,State%-9", SACCT_COLUMNS, "sacct")
    assert lines(wide, [failed], header=True, rule=True) == ["JobN State     ", "---- --------- ", "   a TIMEOUT"]


def test_elements_of_an_array_and_those_to_come_are_named_as_slurm_names_them() -> None:
    assert line(id="j-9.3", parent="j-9", element=3).id == "j-9_3"
    array = line(array_size=Array(first=0, last=9, step=1).size, children=Children(made=4, live=2))
    assert (array.id, array.state, array.why) == ("j-1_[+6]", "PENDING", "(JobArrayTaskLimit)")
    assert ids(["j-9_3,j-8", "j-7_[1-2,5]"]) == ["j-9.3", "j-8", "j-7.1", "j-7.2", "j-7.5"]
    with pytest.raises(ValueError, match="names no elements"):
        ids(["j-7_[1-99999999]"])
    with pytest.raises(ValueError, match="names no elements"):
        ids(["j-7_[5-3]"])


def test_states_and_times_are_read_by_all_their_names() -> None:
    assert states("PD,running") == {"PENDING", "RUNNING"}
    assert states("all") == set()
    with pytest.raises(ValueError, match="BOGUS: the states are PENDING"):
        states("BOGUS")
    assert since_ms("2026-01-02T03:04") < since_ms("2026-01-02T03:04:05") < since_ms("now-1hour") < since_ms("now")
    with pytest.raises(ValueError, match="expected YYYY"):
        since_ms("yesterday-ish")
    assert [span(59), span(3600), span(90_061), span(5, full=True)] == ["0:59", "1:00:00", "1-01:01:01", "00:00:05"]


def test_ranks_are_counted_over_nodes_in_turns_and_numbered_node_by_node() -> None:
    nodes = nodes_of([("a", "a"), ("b", "b")], [4, 2])
    layout = Room(nodes, [4, 2], 1).place(StepRequest(ranks=5))
    assert layout is not None
    assert (layout.per_node, [place.node for place in layout.places]) == ((3, 2), [0, 0, 0, 1, 1])
    with pytest.raises(DoesNotFit, match=r"7 tasks do not fit: .* have place for 6"):
        Room(nodes, [4, 2], 1).place(StepRequest(ranks=7))


def test_no_sequence_of_steps_holds_more_than_the_job_has() -> None:
    rng = random.Random(4)
    waited = placed = 0
    for _ in range(60):
        places = [(f"n{rng.randrange(3)}", f"n{rng.randrange(3)}") for _ in range(5)]
        ranks = [rng.randint(1, 4) for _ in places]
        room, held = Room(nodes_of(places, ranks), ranks, 2), []
        for _ in range(40):
            if held and rng.random() < 0.4:
                room.give_back(held.pop(rng.randrange(len(held))))
                continue
            request = StepRequest(ranks=rng.randint(1, 6), cpus=rng.choice([0, 2, 3]), nodes=rng.choice([0, 0, 1]))
            try:
                layout = room.place(request)
            except DoesNotFit:
                continue
            if layout is None:
                waited += 1
                continue
            placed += 1
            held.append(layout)
            assert len(layout.places) == request.ranks == sum(layout.per_node)
            for task, most in enumerate(ranks):
                assert sum(taken for one in held for at, taken in one.held if at == task) <= most
        for layout in held:
            room.give_back(layout)
        assert room.place(StepRequest(ranks=sum(ranks))) is not None  # all of it is free again
    assert min(waited, placed) > 50


def test_aliases_replace_their_own_files_alone(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["slurm-aliases", "install", str(tmp_path)]) == 0
    assert run_cli(["slurm-aliases", "install", str(tmp_path)]) == 0
    (tmp_path / "sinfo").write_text("#!/bin/sh\nthe real one\n")
    (tmp_path / "squeue").unlink()
    (tmp_path / "squeue").symlink_to("/bin/true")
    assert run_cli(["slurm-aliases", "install", str(tmp_path)]) == 2
    assert "has squeue, sinfo of another program" in capfd.readouterr().err
    assert run_cli(["slurm-aliases", "remove", str(tmp_path)]) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["sinfo", "squeue"]
    assert run_cli(["slurm-aliases", "install", str(tmp_path / "nowhere")]) == 2


def test_lists_of_nodes_need_no_master(capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_NODELIST", "n[1-2]")
    assert run_cli(["scontrol", "show", "hostnames"]) == 0
    assert run_cli(["scontrol", "show", "hostlist", "n3,n4"]) == 0
    assert capfd.readouterr().out == "n1\nn2\nn[3-4]\n"
    assert run_cli(["scontrol", "reconfigure"]) == 2
    assert run_cli(["squeue", "-S", "t"]) == 2
    assert "--sort is refused: pipe the lines through sort" in capfd.readouterr().err


def test_a_time_too_far_back_is_an_error_for_people() -> None:
    with pytest.raises(ValueError, match="expected YYYY-MM-DD"):
        since_ms("now-999999weeks")


@pytest.mark.parametrize("option", ["-u", "-t", "-p", "-A", "-n"])
def test_an_empty_choice_does_not_choose_all_jobs(option: str) -> None:
    given = Given()
    read_words(SCANCEL, [option, ""], given)
    with pytest.raises(ConfigError, match="is empty"):
        choice_of(given, "me", state="state", tenant="account")


def test_squeue_chooses_the_jobs_on_some_nodes() -> None:
    given = Given()
    read_words(SQUEUE, ["-w", "n[2-4]"], given)
    choice = choice_of(given, "me", state="states", tenant="account")
    assert choice.fits(line())
    assert not choice.fits(replace(line(), nodes=("n1",)))
    assert not choice.fits(replace(line(JobState.PENDING), nodes=()))
    read_words(SQUEUE, ["-w", ""], given)
    with pytest.raises(ConfigError, match="--nodelist: names no node"):
        choice_of(given, "me", state="states", tenant="account")


def test_scancel_refuses_an_empty_id_beside_a_choice(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["--endpoints", "127.0.0.1:1", "scancel", "--me", ""]) == 2
    assert run_cli(["--endpoints", "127.0.0.1:1", "scancel", "--me", ","]) == 2
    assert "a job's id is empty" in capsys.readouterr().err
