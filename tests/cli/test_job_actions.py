"""Actions on several jobs: names, selectors, the question before many, and what each job's line says."""

from __future__ import annotations

import getpass
import json
from dataclasses import replace

from gosched.cli.job_selection import MANY
from gosched.cli.job_wait import MAX_ANY
from gosched.client import GoSchedClient, Unavailable
from gosched.core.records.job import JobState
from gosched.core.spec.policies import GangPolicy
from tests.master.harness import spec, until


def put_many(ctl, master, job_file, count: int) -> None:
    ctl("submit", str(job_file))
    for number in range(1, count):
        master.put(f"k-{number}", master.jobs["j-1"].spec)


def test_neither_names_nor_selectors_or_both_are_a_mistake(ctl):
    for verb in ("cancel", "hold", "release", "suspend", "resume", "requeue", "wait"):
        assert "name the jobs, or choose them by" in ctl("job", verb).err
        assert "not both" in ctl("job", verb, "a", "-q", "default").err
        refused = ctl("job", verb, "--state", "failed")
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert "jobs that have ended cannot be" in refused.err
    assert 'did you mean "pending"?' in ctl("job", "cancel", "--state", "pendng").err


def test_many_jobs_are_not_touched_without_a_terminal_or_yes(ctl, master, job_file):
    put_many(ctl, master, job_file, MANY + 1)
    refused = ctl("job", "hold", "--state", "pending")
    assert (refused.code, master.actions) == (2, [])
    assert f"this would hold {MANY + 1} jobs (a, a, a, a, a and 6 more): " in refused.err
    done = ctl("job", "hold", "--state", "pending", "-y")
    assert (done.code, len(master.actions)) == (0, MANY + 1)
    assert done.err.splitlines()[-1] == "j-1 (a): held"
    del master.jobs["k-1"]
    assert ctl("job", "release", "--state", "pending").code == 0, "so few are not asked for"


def test_jobs_that_are_named_are_not_asked_for(ctl, master, job_file):
    put_many(ctl, master, job_file, MANY + 2)
    done = ctl("job", "requeue", *master.jobs)
    assert (done.code, len(done.err.splitlines())) == (0, MANY + 2)


def test_nothing_chosen_is_no_mistake(ctl):
    assert ctl("job", "cancel", "--state", "running").err == "no job fits: nothing is cancelled\n"
    assert ctl("job", "wait", "--state", "running").code == 0


def test_selectors_choose_on_a_real_master_and_an_array_stands_for_its_elements(story):
    async def told(master, ctl):
        for name, x in (("a", "1"), ("b", "2")):
            await master.submit(spec(name, labels=(("x", x),)))
        await ctl("submit", "--array", "0-5", "--name", "sweep", "--labels", "x=1", "--", "true")
        held = (await ctl("job", "hold", "-l", "x=1")).err.splitlines()
        assert [line.partition(" ")[2] for line in held] == [
            "(sweep): held, and 6 jobs of it that waited",
            "(a): held",
        ]
        jobs = {job.spec.name: job for job in master.state.jobs.values()}
        assert {name for name, job in jobs.items() if job.held} == {"a", *(n for n in jobs if n.startswith("sweep"))}
        rows = json.loads((await ctl("job", "list", "--array", "sweep", "-o", "json")).out)
        assert [row["wait"]["code"] for row in rows] == ["HELD"] * 6
        assert all(row["wait"]["since"] for row in rows), "when it was held is noted"
        released = (await ctl("job", "release", "--tenant", "default")).err
        assert "(sweep): released, and 6 jobs of it that waited" in released
        assert not any(job.held for job in master.state.jobs.values())
        # A state looks at the elements themselves: it leaves alone what runs of an array.
        cancelled = (await ctl("job", "cancel", "--state", "pending", "--user", getpass.getuser())).err
        assert [line.partition(" ")[2] for line in cancelled.splitlines()] == [
            f"(sweep.{number}): cancelled" for number in (5, 4, 3, 2, 1, 0)
        ]
        assert (await ctl("job", "cancel", "-q", "default")).code == 0
        assert all(job.state.is_final for job in master.state.jobs.values())

    story(told)


def test_what_was_done_is_said_where_the_masters_do_not_answer_in_the_middle(story, monkeypatch):
    async def told(master, ctl):
        await ctl("submit", "--array", "0-5", "--name", "sweep", "--", "true")
        await master.submit(spec("a"))
        control, left = GoSchedClient.control, iter(range(3))

        def then_silent(client, job, action):
            if "." in job and next(left, None) is None:
                raise Unavailable("no master answered")
            return control(client, job, action)

        monkeypatch.setattr(GoSchedClient, "control", then_silent)
        job_id = next(job.id for job in master.state.jobs.values() if job.spec.name == "sweep")
        held = await ctl("job", "hold", "sweep", "a")
        assert held.code == 5
        assert f"{job_id} is held, with 3 of 6 jobs of it that waited: repeat the command; no master" in held.err
        assert "; what became of 2 jobs of 2 is not known: repeat the command" in held.err

    story(told)


def test_the_history_takes_states_as_the_other_commands_do(story):
    async def told(master, ctl):
        job_id = (await master.submit(spec("a"))).job_id
        await ctl("job", "cancel", "a")
        await until(lambda: master.server.history.store.span.last >= master.state.revision)
        for states in ("cancelled", "failed,CANCELLED"):
            assert (await ctl("job", "history", "--state", states, "-o", "name")).out == f"{job_id}\n"
        assert (await ctl("job", "history", "--state", "failed", "-o", "name")).out == ""
        refused = await ctl("job", "history", "--state", "running")
        assert (refused.code, refused.err.count("\n")) == (2, 1)
        assert "the history has jobs that have ended: succeeded, failed, cancelled" in refused.err

    story(told)


def test_cancel_of_an_ended_job_says_so_and_returns_1(story):
    async def told(master, ctl):
        job_id = (await master.submit(spec("a", hold=True))).job_id
        assert (await ctl("job", "cancel", "a")).err == f"{job_id}: cancelled\n"
        again = await ctl("job", "cancel", "a", "nobody")
        assert again.code == 1
        assert again.err.splitlines()[0].startswith("goschedctl: a: it ended CANCELLED ")
        assert again.err.splitlines()[0].endswith(" ago: nothing is cancelled")

    story(told)


def test_wait_for_several_returns_the_code_of_the_first_that_failed(ctl, master, job_file):
    put_many(ctl, master, job_file, 3)
    master.put("ok", master.jobs["j-1"].spec, JobState.SUCCEEDED)
    master.put("bad", master.jobs["j-1"].spec, JobState.FAILED, exit_code=7)
    ended = {"ok": (JobState.SUCCEEDED, 1), "bad": (JobState.FAILED, 1)}
    master.views = [[ended["ok"]], [ended["bad"]]]
    result = ctl("job", "wait", "ok", "bad")
    assert (result.code, len(result.err.splitlines())) == (7, 2)
    master.views = [[ended["bad"]], [ended["bad"]]]
    assert ctl("job", "wait", "--any", "bad").code == 7
    refused = ctl("job", "wait", "--any", *[f"k-{n}" for n in range(MAX_ANY + 1)])
    assert (refused.code, refused.err) == (2, "goschedctl: --any follows 100 jobs at most; there are 101\n")


def test_wait_that_takes_too_long_says_that_the_jobs_go_on(ctl, master, job_file):
    ctl("submit", str(job_file))
    master.views = [[(JobState.RUNNING, 1)]] * 50
    result = ctl("job", "wait", "a", "--timeout", "300ms")
    assert result.code == 124
    assert "not ended in time: a (j-1) goes on; goschedctl job wait j-1 waits again" in result.err


def test_an_elastic_job_is_scaled_and_says_how_many_of_its_tasks_it_wants(story):
    async def told(master, ctl):
        one = spec("elastic")
        worker = replace(one.groups[0], count=4, min_count=1)
        job_id = (await master.submit(replace(one, groups=(worker,), gang=GangPolicy(min_tasks=1)))).job_id
        assert (await ctl("job", "scale", "elastic", "2")).err == f"{job_id}: 2 tasks wanted\n"
        assert (await ctl("job", "scale", "elastic", "2")).err == f"{job_id}: unchanged\n"
        assert "Wanted     2 of its 4 tasks\n" in (await ctl("job", "show", "elastic")).out
        refused = await ctl("job", "scale", "elastic", "5")
        assert "1 (gang.min) to 4 tasks: 5 are not possible" in refused.err
        assert refused.code == 1

    story(told)
