"""What a task asks for, how many start together and by when: text -> record, and text -> one line."""

from __future__ import annotations

import pytest

from gosched.config import ConfigError, job_from_flags, parse_job_file
from gosched.core.spec.job_spec import JobSpec


def parsed(lines: str) -> JobSpec:
    (spec,) = parse_job_file(f"name: a\nrun: x\n{lines}", "f")
    return spec


def refusal(lines: str) -> str:
    with pytest.raises(ConfigError) as caught:
        parsed(lines)
    return str(caught.value)


@pytest.mark.parametrize(
    ("gpu", "millis", "model", "memory"),
    [
        ("0", 0, "", 0),
        ("2", 2000, "", 0),
        ("0.5", 500, "", 0),
        ("0.001", 1, "", 0),
        ("h100:8", 8000, "h100", 0),
        ("h100:0.5", 500, "h100", 0),
        ("{count: 8, model: h100}", 8000, "h100", 0),
        ("{count: 2, memory: 40Gi}", 2000, "", 40 * 2**30),
        ("{memory: 40Gi}", 1000, "", 40 * 2**30),
        ("{share: 0.25, model: a100, memory: 10Gi}", 250, "a100", 10 * 2**30),
        ("{count: 1, share: 0.999}", 999, "", 0),
    ],
)
def test_gpus_come_in_every_form_of_the_contract(gpu, millis, model, memory):
    (group,) = parsed(f"resources: {{gpu: {gpu}}}").groups
    assert (group.resources.gpu_millis, group.gpu_model, group.gpu_memory_bytes) == (millis, model, memory)


@pytest.mark.parametrize("gpu", ["0.5", "h100:0.5", "h100:8", "2"])
def test_gpus_of_a_flag_are_those_of_a_file(gpu):
    spec = job_from_flags({"name": "a", "run": "x", "resources": {"gpu": gpu}}, {})
    assert spec == parsed(f"resources: {{gpu: {gpu}}}")


def test_other_keys_are_resources_of_the_clusters_own():
    (group,) = parsed("resources: {cpu: 2, tpu: 1, fpga: 2, licence.matlab: 3, unused: 0}").groups
    assert group.resources.cpu_millis == 2000
    assert group.resources.custom == (("fpga", 2), ("licence.matlab", 3), ("tpu", 1))


@pytest.mark.parametrize(
    ("resources", "message"),
    [
        ("{memroy: 5Gi}", 'f:3: resources.memroy: unknown key (did you mean "memory"?)'),
        ("{mem: 5Gi}", 'f:3: resources.mem: unknown key (did you mean "memory"?)'),
        ("{cpus: 1}", 'f:3: resources.cpus: unknown key (did you mean "cpu"?)'),
        ("{GPU: 1}", 'f:3: resources.GPU: unknown key (did you mean "gpu"?)'),
        ("\n  cpu: 1\n  storge: 1Gi", 'f:5: resources.storge: unknown key (did you mean "storage"?)'),
        ("{fpga: 1.5}", "f:3: resources.fpga: expected a whole number, got 1.5"),
        ("{fpga: 2Gi}", "f:3: resources.fpga: expected a whole number, got '2Gi'"),
        ("{fpga: -1}", "f:3: resources.fpga: cannot be negative, got -1"),
        ("{fpga: }", "f:3: resources.fpga: expected a whole number, got nothing"),
        ("{'an fpga': 1}", "f:3: resources.an fpga: 'an fpga' may hold only letters, digits, '.', '_' and '-'"),
        (
            f"{{{', '.join(f'r{n}: 1' for n in range(17))}}}",
            "f:3: resources: 17 resources of the cluster's own; at most 16",
        ),
        ("{gpu: 1.5}", "f:3: resources.gpu: 1.5 GPUs: ask for a part of one GPU, or for whole ones"),
        (
            "{gpu: h100:1.5}",
            "f:3: resources.gpu: 1.5 GPUs: ask for a part of one GPU, or for whole ones",
        ),
        ("{gpu: 0.0001}", "f:3: resources.gpu: 0.0001 is too fine: GPUs come in thousandths"),
        ("{gpu: two}", "f:3: resources.gpu: expected a number of GPUs such as 2 or 0.5, got 'two'"),
        ("{gpu: 2000}", "f:3: resources.gpu: 2000 GPUs; at most 1024 are allowed"),
        ("{gpu: {share: 1}}", "f:3: resources.gpu.share: expected a share of one GPU, 0.001 to 0.999, got 1"),
        ("{gpu: {share: 0}}", "f:3: resources.gpu.share: expected a share of one GPU, 0.001 to 0.999, got 0"),
        ("{gpu: {count: 2, share: 0.5}}", "f:3: resources.gpu: share is of one GPU: leave count out, or make it 1"),
        ("{gpu: {memory: 40}}", "f:3: resources.gpu.memory: needs a unit such as 40Mi or 40Gi"),
        ("{gpu: {count: 0, memory: 1Gi}}", "f:3: resources.gpu.memory: without a GPU: ask for GPUs too"),
        ("{gpu: {modle: a}}", 'f:3: resources.gpu.modle: unknown key (did you mean "model"?)'),
    ],
)
def test_mistake_in_resources_is_one_line_with_its_place(resources, message):
    assert refusal(f"resources: {resources}").startswith(message)


@pytest.mark.parametrize(
    ("gang_min", "count", "floor", "recorded"),
    [
        ("all", 4, 4, 0),
        ("100%", 4, 4, 0),
        ("4", 4, 4, 0),
        ("3", 4, 3, 3),
        ("1", 4, 1, 1),
        ("50%", 4, 2, 2),
        ("50%", 5, 3, 3),
        ("1%", 5, 1, 1),
        ("99%", 5, 5, 0),
    ],
)
def test_gang_min_is_the_floor_of_the_only_group(gang_min, count, floor, recorded):
    spec = parsed(f"count: {count}\ngang: {{min: {gang_min}}}")
    assert spec.gang.min_tasks == spec.groups[0].floor == floor
    assert spec.groups[0].min_count == recorded


@pytest.mark.parametrize(("gang_min", "floors"), [("50%", [1, 4]), ("9", [1, 8]), ("all", [1, 8])])
def test_a_percent_is_of_each_group_and_their_floors_add_up(gang_min, floors):
    text = f"name: a\ngang: {{min: {gang_min}}}\ntasks: {{ps: {{run: x}}, worker: {{run: y, count: 8}}}}"
    (spec,) = parse_job_file(text, "f")
    assert [group.floor for group in spec.groups] == floors
    assert spec.gang.min_tasks == sum(floors)


@pytest.mark.parametrize(
    ("deadline", "at_ms", "in_ms"),
    [
        ('{at: "2026-12-01T06:00:00Z", on_miss: continue}', 1_796_104_800_000, 0),
        ("{at: 2026-12-01T06:00:00Z}", 1_796_104_800_000, 0),
        ("{at: 2026-12-01t07:00:00.250+01:00}", 1_796_104_800_250, 0),
        ("{in: 6h}", 0, 6 * 3_600_000),
    ],
)
def test_a_deadline_is_a_moment_or_a_time_after_submission(deadline, at_ms, in_ms):
    spec = parsed(f"deadline: {deadline}")
    assert (spec.deadline_at_ms, spec.deadline_in_ms) == (at_ms, in_ms)


@pytest.mark.parametrize(
    ("begin", "at_ms", "in_ms"),
    [("{at: 2026-12-01T07:00:00.250+01:00}", 1_796_104_800_250, 0), ("{in: 6h}", 0, 6 * 3_600_000)],
)
def test_a_begin_is_a_moment_or_a_time_after_submission(begin, at_ms, in_ms):
    spec = parsed(f"begin: {begin}")
    assert (spec.begin_at_ms, spec.begin_in_ms) == (at_ms, in_ms)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ("begin: {}", 'f:3: begin: needs either "at", a time, or "in", a duration'),
        ("begin: {in: 6h, at: 2026-12-01T06:00:00Z}", 'f:3: begin: needs either "at", a time, or "in", a duration'),
        ("begin: {in: 0}", "f:3: begin.in: expected at least 1, got 0"),
        ("begin: {at: tomorrow}", "f:3: begin.at: expected a time with its offset such as"),
        ("begin: {at: 1850-12-01T06:00:00Z}", "f:3: begin.at: expected at least 1"),
        ("begin: {in: 6h, on_miss: refuse}", "f:3: begin.on_miss: unknown key"),
        ("begin: 6h", "f:3: begin: expected keys and values, got '6h'"),
        (
            "begin: {in: 6h}\ndeadline: {in: 5h}",
            "f:3: begin: the job would begin when its deadline is over: give it an earlier begin or a later deadline",
        ),
        (
            "begin: {in: 6h}\nschedule: {cron: '0 2 * * *'}",
            "f:3: begin: is for a job that runs once: say in schedule.cron when the runs begin",
        ),
    ],
)
def test_mistake_in_a_begin_is_one_line_with_its_place(keys, message):
    assert refusal(keys).startswith(message)


@pytest.mark.parametrize(
    ("deadline", "message"),
    [
        ("{}", 'f:3: deadline: needs either "at", a time, or "in", a duration'),
        ("{in: 6h, at: 2026-12-01T06:00:00Z}", 'f:3: deadline: needs either "at", a time, or "in", a duration'),
        ("{in: 6}", "f:3: deadline.in: expected a duration with a unit"),
        ("{in: 0}", "f:3: deadline.in: expected at least 1, got 0"),
        ("{at: 2026-12-01}", "f:3: deadline.at: expected a time with its offset such as"),
        ("{at: 2026-12-01T06:00:00}", "f:3: deadline.at: expected a time with its offset such as"),
        ("{at: 2026-13-01T06:00:00Z}", "f:3: deadline.at: there is no such time: '2026-13-01T06:00:00Z'"),
        ("{at: 1850-12-01T06:00:00Z}", "f:3: deadline.at: expected at least 1"),
        (
            "{in: 6h, on_miss: cancel}",
            "f:3: deadline.on_miss: expected continue or refuse, got 'cancel'",
        ),
        ("6h", "f:3: deadline: expected keys and values, got '6h'"),
    ],
)
def test_mistake_in_a_deadline_is_one_line_with_its_place(deadline, message):
    assert refusal(f"deadline: {deadline}").startswith(message)
