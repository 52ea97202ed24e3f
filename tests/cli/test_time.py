"""Commands about time and force: what they send, what they print, and their exit codes."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from gosched.cli.output import duration
from gosched.config import parse_job_file
from gosched.core.records.allocation import TaskPlacement
from gosched.core.records.fence import Fence
from gosched.core.records.job import Children, JobState
from gosched.core.records.reservation import Reservation, Share
from gosched.core.records.window import Window
from gosched.core.spec.array import Array
from gosched.core.spec.dependency import Condition, Dependency
from gosched.core.spec.job_spec import Overlap
from gosched.wire.codec import to_message
from gosched.wire.v1 import scheduler_pb2, types_pb2
from tests.master.harness import agent, until

NOON = 1_796_126_400_000  # 2026-12-01T12:00:00Z
HOUR_MS = 3_600_000


def test_flags_set_times_and_arrays(ctl, master):
    result = ctl(
        "submit", "--array", "0-9:3%2", "--timeout", "1h", "--estimate", "30m", "--deadline", "+6h", "--after", "etl",
        "--after", "j-9:any", "--hold", "--no-preemptible", "--name", "x", "--", "true",
    )  # fmt: skip
    assert result.code == 0, result.err
    spec = master.jobs["j-1"].spec
    assert spec.array == Array(first=0, last=9, step=3, parallelism=2)
    assert (spec.timeout_ms, spec.estimate_ms, spec.deadline_in_ms) == (HOUR_MS, HOUR_MS // 2, 6 * HOUR_MS)
    assert spec.after == (
        Dependency(job="etl", condition=Condition.SUCCESS),
        Dependency(job="j-9", condition=Condition.ANY),
    )
    assert (spec.hold, spec.preemption.preemptible) == (True, False)


def test_a_deadline_may_be_a_moment_and_missing_flags_set_nothing(ctl, master):
    begin = ("--begin", "+2h")
    assert ctl("submit", *begin, "--deadline", "2026-12-01T12:00:00Z", "--preemptible", "--", "true").code == 0
    spec = master.jobs["j-1"].spec
    assert (spec.begin_at_ms, spec.begin_in_ms) == (0, 2 * HOUR_MS)
    assert (spec.deadline_at_ms, spec.hold, spec.preemption.preemptible, spec.is_parent) == (NOON, False, True, False)


def test_a_job_shows_when_it_begins(ctl, master):
    put(master, "j-1", 'name: late\nrun: x\nbegin: {at: "2026-12-01T12:00:00Z"}')
    assert "Begins     not before 2026-12-01T12:00:00.000Z\n" in ctl("job", "show", "late").out
    assert '"begin": "2026-12-01T12:00:00.000Z"' in ctl("job", "list", "-o", "json").out
    assert "begin:\n  at: '2026-12-01T12:00:00+00:00'\n" in ctl("job", "show", "late", "-o", "yaml").out


@pytest.mark.parametrize("action", ["hold", "release", "freeze", "suspend", "resume", "requeue"])
def test_each_action_continues_after_an_unknown_job_and_prints_its_result(ctl, master, job_file, action):
    ctl("submit", str(job_file))
    words = {"freeze": ("suspend",), "suspend": ("suspend", "--free")}.get(action, (action,))
    result = ctl("job", *words, "nobody", "a")
    assert (result.code, result.out) == (1, "")
    assert result.err.splitlines()[0] == 'goschedctl: no job "nobody"'
    assert result.err.splitlines()[1].startswith("j-1: ")
    assert master.actions == [("j-1", action)]
    result = ctl("job", *words, "j-1")
    assert (result.code, result.err) == (0, "j-1: unchanged\n")


def put(master, job_id: str, text: str, **fields: object) -> None:
    (spec,) = parse_job_file(text, "f")
    master.put(job_id, spec)
    master.jobs[job_id] = replace(master.jobs[job_id], **fields)
    if spec.is_parent:
        master.tasks[job_id] = []


def test_parents_show_their_children_and_waiting_jobs_what_they_wait_for(ctl, master):
    children = Children(made=40, live=3, succeeded=35, failed=2)
    put(master, "j-1", "name: sweep\nrun: x\narray: {range: 0-999}", state=JobState.RUNNING, children=children)
    schedule = 'name: nightly\nrun: x\nschedule: {cron: "0 2 * * *", timezone: Europe/Berlin, overlap: forbid}'
    put(master, "j-2", schedule, state=JobState.RUNNING, children=Children(made=4, succeeded=4, next_run_at_ms=NOON))
    waits = (Dependency(job="j-1", condition=Condition.SUCCESS),)
    put(master, "j-3", "name: report\nrun: x", held=True, waits_for=waits, preemptions=2, deadline_missed=True)
    put(master, "j-4", "name: sweep.7\nrun: x\ntimeout: 1h", parent="j-1", element=7, until_ms=NOON)
    rows = {line.split()[0]: line for line in ctl("job", "list").out.splitlines()}
    assert rows["j-1"].split()[5] == "37/1000"
    assert rows["j-1"].endswith("  2 failed")
    assert rows["j-2"].endswith("next run 2026-12-01T12:00:00.000Z")
    assert rows["j-3"].endswith("held, waits for j-1 (success), deadline missed")
    text = ctl("job", "show", "sweep").out
    assert "Elements   37 of 1000 done, 3 live, 35 succeeded, 2 failed\n" in text
    assert "TASK" not in text
    text = ctl("job", "show", "nightly").out
    assert "Schedule   0 2 * * * (Europe/Berlin, overlap: forbid)\n" in text
    assert "Next run   2026-12-01T12:00:00.000Z\n" in text
    assert "Runs       4 so far, 4 succeeded\n" in text
    text = ctl("job", "show", "report").out
    assert "Waits for  j-1 (success)\n" in text
    assert "Evicted    2 times\n" in text
    text = ctl("job", "show", "j-4").out
    assert "Part of    j-1, number 7\n" in text
    assert "Limits     timeout 1h\n" in text
    assert "Backfilled may be evicted from 2026-12-01T12:00:00.000Z\n" in text
    shape = json.loads(ctl("job", "show", "j-1", "-o", "json").out)
    counts = {"size": 1000, "made": 40, "live": 3, "succeeded": 35, "failed": 2, "cancelled": 0}
    assert shape["array"] == {**counts, "failed_elements": []}
    assert (shape["schedule"], shape["parent"], shape["tasks"]) == (None, None, [])
    shape = json.loads(ctl("job", "show", "j-2", "-o", "json").out)
    assert shape["schedule"]["overlap"] == Overlap.FORBID.name.lower()


def test_wait_follows_an_array_and_returns_its_code(ctl, master):
    children = Children(made=40, live=3, succeeded=35, failed=2)
    put(master, "j-1", "name: sweep\nrun: x\narray: {range: 0-999}", children=children)
    master.views = [[(JobState.RUNNING, 1)], [(JobState.RUNNING, 1), (JobState.FAILED, 2)]]  # it looks, then follows
    result = ctl("job", "wait", "sweep")
    assert result.code == 1
    assert result.err.splitlines() == ["sweep: 37 of 1000 done, 2 failed, 3 live", "sweep: failed"]
    assert ctl("job", "wait", "sweep").code == 0


def test_waiting_for_the_end_of_a_schedule_is_refused(ctl, master, tmp_path):
    path = tmp_path / "nightly.yaml"
    path.write_text('name: nightly\nrun: x\nschedule: {cron: "0 2 * * *"}\n')
    result = ctl("submit", "--wait", str(path))
    assert result.code == 2
    assert "a schedule has no end" in result.err
    assert master.calls == []
    assert ctl("submit", str(path)).code == 0


def test_local_run_of_a_schedule_is_refused_before_anything_starts(ctl, tmp_path):
    path = tmp_path / "nightly.yaml"
    path.write_text('name: nightly\nrun: x\nschedule: {cron: "0 2 * * *"}\n')
    result = ctl("local", "run", str(path))
    assert (result.code, result.out) == (2, "")
    assert "a schedule has no end" in result.err


def test_documents_are_submitted_after_their_dependencies(ctl, master, tmp_path):
    path = tmp_path / "pipeline.yaml"
    path.write_text("name: report\nrun: x\nafter: {etl: success}\n---\nname: etl\nrun: y\n")
    assert ctl("submit", str(path)).code == 0
    assert [job.spec.name for job in master.jobs.values()] == ["etl", "report"]


@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0s"), (0.5, "0.5s"), (59, "59s"), (3600, "1h"), (5400, "1h30m"), (90_061, "1d1h1m1s")]
)
def test_durations_are_printed_as_a_job_file_has_them(seconds, text):
    assert duration(seconds) == text


def planned(name: str, outcome: str, **fields: object) -> scheduler_pb2.PlannedJob:
    return scheduler_pb2.PlannedJob(name=name, outcome=outcome, **fields)


STARTS = planned("a", "starts", start_ms=NOON, nodes=[scheduler_pb2.NodeTasks(node_id="n-1", tasks=2)])
EVICTS = planned(
    "b",
    "starts_after_evictions",
    start_ms=NOON,
    victims=[
        scheduler_pb2.Victim(
            job_id="j-7", name="night", tasks=4, whole=True, cause="preempt", lost_ms=3 * HOUR_MS
        ),
        scheduler_pb2.Victim(job_id="j-8", name="web", tasks=2, cause="reclaim", lost_ms=60_000),
    ],
)  # fmt: skip
WAITS = planned("c", "waits", explanation=scheduler_pb2.JobExplanation(code="INSUFFICIENT", message="needs 8 GPUs"))
REFUSED = planned("d", "refused", explanation=scheduler_pb2.JobExplanation(message="its deadline cannot be met"))


@pytest.mark.parametrize(
    ("jobs", "code"),
    [([STARTS], 0), ([STARTS, EVICTS], 0), ([STARTS, WAITS], 3), ([WAITS, REFUSED], 1)],
)
def test_plan_returns_whether_all_would_start(ctl, master, job_file, jobs, code):
    master.planned.jobs.extend(jobs)
    result = ctl("plan", str(job_file))
    assert (result.code, result.err) == (code, "")
    assert master.calls == ["PlanJob"]
    assert master.requests[0].specs[0].name == "a"


def test_plan_prints_nodes_victims_and_reserved_starts_that_move(ctl, master, job_file):
    master.planned.jobs.extend([STARTS, EVICTS, WAITS])
    master.planned.jobs[0].warnings.append("asks for 9 CPUs")
    master.planned.moved.add(job_id="j-5", name="big", before_ms=NOON, after_ms=0)
    result = ctl("plan", str(job_file))
    lines = result.out.splitlines()
    assert lines[1].split() == ["a", "starts", "2026-12-01T12:00:00.000Z", "n-1", "(2", "tasks)", "-"]
    assert "night (preempt, loses 3h of work), web (2 of its tasks, reclaim, loses 60s of work)" in lines[2]
    assert lines[3].split() == ["c", "waits", "-", "-", "-"]
    assert lines[4:6] == ["", "c: needs 8 GPUs"]
    assert lines[7] == "Reserved starts of other jobs that would change:"
    assert lines[9].split() == ["j-5", "big", "2026-12-01T12:00:00.000Z", "none"]
    assert result.err == "a: warning: asks for 9 CPUs\n"
    shape = json.loads(ctl("plan", str(job_file), "-o", "json").out)
    assert shape["jobs"][1]["victims"][0]["lost_s"] == 10_800
    assert shape["jobs"][2]["explanation"]["code"] == "INSUFFICIENT"
    assert shape["moved"][0]["after"] is None
    assert ctl("plan", str(job_file), "-o", "name").out == "a\nb\nc\n"


def test_explain_prints_holders_the_start_and_what_would_help(ctl, master, job_file):
    ctl("submit", str(job_file))
    about = master.explained
    about.code, about.message, about.position = "INSUFFICIENT", "needs 8 GPUs in all; 2 are free", 1
    about.queue.path = "default"
    about.start_ms, about.start_from = (time.time_ns() // 1_000_000) + 3 * HOUR_MS, "the reservation of this job"
    about.holders.add(job_id="j-7", name="night", queue="research", held={"gpu": 4000}, until_ms=NOON)
    about.holders.add(job_id="j-8", name="web", queue="research", held={"gpu": 2000})
    about.change = "gang.min 2 would start it now"
    about.victims.add(job_id="j-7", name="night", tasks=4, whole=True, cause="preempt", lost_ms=HOUR_MS)
    lines = ctl("explain", "a").out.splitlines()
    assert "Position   1 in its queue" in lines
    at = lines.index("Held by    j-7 (night, queue research): gpu 4, until 2026-12-01T12:00:00.000Z")
    assert lines[at + 1] == f"{'':11}j-8 (web, queue research): gpu 2, end unknown: it has no timeout"
    starts = next(line for line in lines if line.startswith("Starts"))
    assert starts.endswith("Z (in 2h): the reservation of this job")
    assert "Would help gang.min 2 would start it now" in lines
    assert "Observed   would evict night (preempt, loses 60m of work)" in lines
    shape = json.loads(ctl("explain", "a", "-o", "json").out)
    assert shape["holders"][0] == {
        "id": "j-7", "name": "night", "queue": "research", "held": {"gpu": 4}, "until": "2026-12-01T12:00:00.000Z",
    }  # fmt: skip
    assert (shape["change"], shape["would_evict"][0]["id"]) == ("gang.min 2 would start it now", "j-7")


def test_a_reservation_names_its_nodes_and_the_jobs_in_the_way(ctl, master):
    master.in_the_way = ["j-7"]
    result = ctl(
        "reservation", "create", "maint", "--nodes", "n-2,n-1", "--from", "2026-12-01T12:00:00Z",
        "--to", "2026-12-01T14:00:00+01:00", "--reason", "new disks",
    )  # fmt: skip
    assert (result.code, result.out) == (0, "maint\n")
    assert result.err.splitlines() == [
        "maint: 2 nodes from 2026-12-01T12:00:00.000Z to 2026-12-01T13:00:00.000Z: n-1,n-2",
        "maint: j-7 may still run then, and cannot be evicted: cancel it, or give it a timeout",
    ]
    window = master.requests[0].window
    assert (window.start_ms, window.end_ms, window.reason) == (NOON, NOON + HOUR_MS, "new disks")
    assert list(window.nodes) == ["n-1", "n-2"]


def test_a_reservation_of_resources_is_for_a_queue_and_starts_now(ctl, master):
    now_ms = time.time_ns() // 1_000_000
    result = ctl(
        "reservation", "create", "demo", "--resources", "gpu=64,cpu=128", "--to", "+2h", "--queue", "research",
        "--queue", "prod", "--tenant", "nlp", "-o", "json",
    )  # fmt: skip
    assert result.code == 0
    request = master.requests[0]
    assert dict(request.resources) == {"gpu": 64_000, "cpu": 128_000}
    assert 0 <= request.window.start_ms - now_ms < 60_000
    assert 0 <= request.window.end_ms - request.window.start_ms - 2 * HOUR_MS < 60_000
    assert (list(request.window.queues), list(request.window.tenants)) == (["prod", "research"], ["nlp"])
    shape = json.loads(result.out)
    assert (shape["nodes"], shape["in_the_way"], shape["kind"]) == (["n-1", "n-2"], [], "window")


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--to", "+2h"], "give either nodes, --nodes n1,n2"),
        (["--to", "+2h", "--nodes", "n-1", "--resources", "cpu=1"], "give either nodes"),
        (["--to", "+2h", "--nodes", ","], "give either nodes or resources"),
        (["--to", "+2h", "--resources", "memroy=1Gi"], 'did you mean "memory"'),
        (["--to", "+2h", "--resources", "cpu"], "--resources: expected NAME=AMOUNT"),
        (["--nodes", "n-1"], "--to"),
        (["--nodes", "n-1", "--to", "tomorrow"], "--to: expected a time with its offset"),
        (["--nodes", "n-1", "--to", "+2"], "--to: expected a duration with a unit"),
        (["--nodes", "n-1", "--to", "2026-12-01T12:00:00"], "or +2h for two hours from now"),
        (["--nodes", "n-1", "--from", "+2h", "--to", "+1h"], "--to: is not after the start"),
        (["--nodes", "n-1", "--to", "+1h", "--queue", "a b"], "--queue: expected letters"),
    ],
)
def test_a_bad_reservation_is_one_line_and_changes_nothing(ctl, master, args, words):
    result = ctl("reservation", "create", "maint", *args)
    assert (result.code, result.out, result.err.count("\n")) == (2, "", 1)
    assert words in result.err
    assert master.calls == []


def test_what_is_reserved_is_listed_and_a_window_is_deleted(ctl, master):
    window = Window(name="maint", start_ms=NOON, end_ms=NOON + HOUR_MS, nodes=("n-1", "n-2"), reason="new disks")
    start = Reservation(
        job_id="j-1", attempt=1, start_ms=NOON, shares=(Share(group="task", node_id="n-3", count=2),), made_at_ms=1
    )
    placed = tuple(TaskPlacement(rank=rank, node_id="n-4") for rank in range(2))
    fence = Fence(job_id="j-2", attempt=1, tasks=placed, made_at_ms=NOON)
    master.reserved.windows.append(to_message(window, types_pb2.Window))
    master.reserved.windows.append(to_message(replace(window, name="x", tenants=("nlp",)), types_pb2.Window))
    master.reserved.reservations.append(to_message(start, types_pb2.Reservation))
    master.reserved.fences.append(to_message(fence, types_pb2.Fence))
    lines = [line.split() for line in ctl("reservation", "list").out.splitlines()]
    noon = "2026-12-01T12:00:00.000Z"
    assert lines[1][:5] == ["maint", "window", noon, "2026-12-01T13:00:00.000Z", "2"]
    assert lines[1][5:] == ["maintenance", "new", "disks"]
    assert lines[2][5:7] == ["tenant", "nlp"]
    assert lines[3] == ["j-1", "start", noon, "-", "1", "the", "job", "-"]
    assert lines[4][:5] == ["j-2", "fence", noon, "-", "1"]
    assert "n-1,n-2" in ctl("reservation", "list", "-o", "wide").out
    assert ctl("reservation", "list", "-o", "name").out == "maint\nx\nj-1\nj-2\n"
    assert [row["kind"] for row in json.loads(ctl("reservation", "list", "-o", "json").out)] == [
        "window", "window", "start", "fence",
    ]  # fmt: skip
    assert ctl("reservation", "delete", "maint").err == "maint: deleted\n"
    assert master.requests[-1].name == "maint"
    assert ctl("reservation", "delete", "nope").code == 1


def test_a_real_master_holds_plans_and_keeps_windows(story, tmp_path):
    path = tmp_path / "jobs.yaml"
    path.write_text("name: fits\nrun: x\nresources: {cpu: 2}\n---\nname: waits\nrun: x\nresources: {cpu: 9}\n")

    async def told(master, ctl):
        async with agent(master, "n1", cpus=4):
            result = await ctl("plan", str(path), "-o", "json")
            assert result.code == 3
            planned = json.loads(result.out)["jobs"]
            assert [(job["outcome"], job["nodes"]) for job in planned] == [
                ("starts", [{"node": "n1", "tasks": 1}]),
                ("waits", []),
            ]
            assert planned[1]["explanation"]["code"] == "NODE_TOO_SMALL"
            assert not master.state.jobs
            await ctl("submit", "--hold", "--name", "h", "--", "true")
            assert "Waits      HELD: " in (await ctl("explain", "h")).out
            assert (await ctl("job", "hold", "h")).err.endswith(": unchanged\n")
            assert (await ctl("job", "release", "h")).err.endswith(": released\n")
            await until(lambda: master.state.find_job("h").state is JobState.RUNNING)
            assert (
                await ctl("reservation", "create", "m", "--resources", "cpu=3", "--from", "+1h", "--to", "+2h")
            ).code == 0
            assert master.state.windows["m"].nodes == ("n1",)
            assert (await ctl("reservation", "list", "-o", "name")).out == "m\n"
            assert (await ctl("reservation", "delete", "m")).code == 0
            assert not master.state.windows

    story(told)


def test_a_real_master_counts_the_elements_of_an_array(story):
    async def told(master, ctl):
        await ctl("submit", "--array", "1-5%2", "--name", "sweep", "--", "true")
        text = (await ctl("job", "show", "sweep")).out
        assert "Elements   0 of 5 done, 2 live\n" in text
        assert sorted(job.spec.name for job in master.state.jobs.values()) == ["sweep", "sweep.1", "sweep.2"]
        assert "Progress   ARRAY: 5 elements: 2 live" in (await ctl("explain", "sweep")).out
        await ctl("job", "cancel", "sweep")
        result = await ctl("job", "wait", "sweep")
        assert (result.code, result.err) == (1, "sweep: cancelled\n")

    story(told)
