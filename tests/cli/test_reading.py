"""Who reads what `submit` is given: a master; here, where none can, with the same words."""

from __future__ import annotations

import pytest

from tests.client.fake_cluster import FakeMaster

GOOD = "name: a\nrun: echo hi\n"
BAD = "name: a\nrun: x\n---\nname: b\nrun: y\ncuont: 3\n"


@pytest.fixture(params=["a master reads", "an older master does not"])
def either(master: FakeMaster, request) -> FakeMaster:
    master.is_older = request.param != "a master reads"
    return master


def test_a_file_with_flags_over_it_is_the_same_job_wherever_it_is_read(ctl, either, tmp_path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(GOOD)
    flags = ["--count", "3", "--env", "A=1", "--label", "x=y", "--no-preemptible", "--deadline", "+6h"]
    assert ctl("submit", str(file), *flags, "--set", "retry.max=7", "--hold").code == 0
    (job,) = either.jobs.values()
    (group,) = job.spec.groups
    assert (group.count, group.env, job.spec.labels) == (3, (("A", "1"),), (("x", "y"),))
    assert (job.spec.retry.max_restarts, job.spec.hold, job.spec.deadline_in_ms) == (7, True, 6 * 3_600_000)
    assert not job.spec.preemption.preemptible
    assert len(either.read) == (not either.is_older)


def test_a_mistake_has_the_same_line_wherever_it_is_found(ctl, either, tmp_path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(BAD)
    found = ctl("submit", str(file))
    assert (found.code, found.err) == (2, f'goschedctl: {file}:6: cuont: unknown key (did you mean "count"?)\n')
    assert ctl("submit", str(file), "--name", "c").err == f"goschedctl: --name: names one job; there are 2 in {file}\n"
    assert not either.jobs


def test_a_file_that_is_too_large_for_a_master_is_read_here(ctl, master, tmp_path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(GOOD + f"# {'x' * 300_000}\n")
    assert ctl("submit", str(file)).code == 0
    assert (len(master.jobs), master.read) == (1, [])


def test_more_flags_than_a_master_reads_are_read_here(ctl, master, tmp_path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(GOOD)
    assert ctl("submit", str(file), *(word for n in range(201) for word in ("--set", f"labels.n{n}={n}"))).code == 0
    assert len(next(iter(master.jobs.values())).spec.labels) == 201


def test_a_program_is_not_sent_to_a_master(ctl, master, tmp_path) -> None:
    file = tmp_path / "train.py"
    file.write_text("import os\nprint(1)\n")
    found = ctl("submit", str(file))
    assert found.code == 2
    assert f"to run it as a job: goschedctl submit -- {file}" in found.err
    assert master.read == []


def test_what_is_wrong_with_a_file_is_said_where_no_master_can_be_reached(ctl, master, tmp_path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(BAD)
    master.stop()
    found = ctl("submit", str(file))
    assert (found.code, "cuont: unknown key" in found.err) == (2, True)
    file.write_text(GOOD)
    found = ctl("submit", str(file))
    assert (found.code, "no master can be reached" in found.err) == (5, True)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--env", "A=\udcff", "--", "true"], "--env: not UTF-8: "),
        (["--set", "name=\udcff", "--", "true"], "--set: not UTF-8: "),
        (["--", "true", "\udcff"], "command: not UTF-8: "),
        (["--set", f"{'a.' * 5000}a=1", "--", "true"], "nested more than 20 deep"),
    ],
)
def test_words_that_no_job_can_hold_are_an_error_in_one_line(ctl, master, words, said) -> None:
    found = ctl("submit", *words)
    assert (found.code, found.err.count("\n")) == (2, 1), found.err
    assert said in found.err
    assert not master.jobs
