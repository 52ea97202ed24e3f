"""Config and state machine accept exactly the same: jobs, trees of queues, quotas."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import Phase, assume, given, settings

from gosched.config import ConfigError, parse_job_file, parse_queue_file
from gosched.config import queues as queue_config
from gosched.config.jobs import jobfile
from gosched.core.commands.cluster import SetQueues
from gosched.core.commands.command import Body, Command
from gosched.core.commands.jobs import SubmitJob
from gosched.core.features import FeatureLevel
from gosched.core.outcome import Accepted, Rejected
from gosched.core.records.queue import Queue
from gosched.core.records.tenant import Quota
from gosched.core.rules.finding import Finding
from gosched.core.rules.jobs import check_begin_in_time, check_job
from gosched.core.spec.job_spec import JobSpec
from gosched.core.state.cluster_state import ClusterState
from gosched.state_machine import apply
from tests.config.specs import quotas, specs, trees
from tests.config.written import job_text, vector
from tests.state_machine.cluster import spec

NOW_MS = 3


def state_machine_accepts(body: Body) -> bool:
    """Whether a new cluster takes it, with at most one job, etl, that others can wait for."""
    state = ClusterState()
    apply(state, Command(body=SetQueues(queues=(Queue(path="default"),)), at_ms=1))
    if isinstance(body, SubmitJob):
        etl = replace(spec("etl"), tenant=body.spec.tenant)
        apply(state, Command(body=SubmitJob(job_id="j0", spec=etl), at_ms=2))
    outcome, _ = apply(state, Command(body=body, at_ms=NOW_MS))
    assert isinstance(outcome, Accepted | Rejected)
    return isinstance(outcome, Accepted)


def read(parse: Callable[[str, str], Any], text: str) -> Any:
    """What is parsed; None where it is refused, which is said in one line with its place."""
    try:
        return parse(text, "f")
    except ConfigError as error:
        message = str(error)
    assert message.startswith("f:1: ")
    assert "\n" not in message
    return None


def job_of(job: JobSpec) -> JobSpec | None:
    found = read(parse_job_file, job_text(job))
    return found[0] if found else None


def check_jobs(examples: int, seen: Counter[str], *phases: Phase) -> None:
    @settings(max_examples=examples, deadline=None, derandomize=True, database=None, phases=phases or tuple(Phase))
    @given(specs())
    def agree(job: JobSpec) -> None:
        assume(check_begin_in_time(job, NOW_MS) is None)  # no file says what time it is
        accepted = state_machine_accepts(SubmitJob(job_id="j", spec=job, next_run_at_ms=1 if job.cron else 0))
        written = job_of(job)
        assert (written is not None) == accepted
        assert written is None or written == job
        found = check_job(job, FeatureLevel.BOUNDED)
        seen["" if accepted else ".".join(map(str, found.path))[:20] if found else "other"] += 1

    agree()


def nested(tree: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    return [
        {
            **node,
            "guaranteed": vector(node["guaranteed"]),
            "limit": vector(node["limit"]),
            "half_life": f"{node['half_life']}ms",
            "children": nested(node["children"]),
        }
        for node in tree
    ]


def check_trees(examples: int, seen: Counter[str], *phases: Phase) -> None:
    @settings(max_examples=examples, deadline=None, derandomize=True, database=None, phases=phases or tuple(Phase))
    @given(trees(), quotas())
    def agree(tree: tuple[Sequence[dict[str, Any]], tuple[Queue, ...]], wanted: tuple[Quota, ...]) -> None:
        nodes, records = tree
        text = {
            "queues": nested(nodes),
            "quotas": [
                {
                    "tenant": quota.tenant,
                    "limit": vector(quota.limit),
                    **({"max_running_jobs": quota.max_running_jobs} if quota.max_running_jobs else {}),
                }
                for quota in wanted
            ],
        }
        accepted = state_machine_accepts(SetQueues(queues=records, quotas=wanted, sets_quotas=True))
        written = read(parse_queue_file, json.dumps(text, ensure_ascii=False))
        assert (written is not None) == accepted
        assert written is None or written == (records, wanted)
        seen["accepted" if accepted else "refused"] += 1

    agree()


def test_a_job_file_says_what_masters_accept_and_nothing_else() -> None:
    seen: Counter[str] = Counter()
    check_jobs(300, seen)
    assert seen[""] > 60
    assert len(seen) > 20, seen


def test_a_queue_config_says_what_masters_accept_and_nothing_else() -> None:
    seen: Counter[str] = Counter()
    check_trees(200, seen)
    assert min(seen["accepted"], seen["refused"]) > 40, seen


def _directories_are_absolute(job: JobSpec, level: int) -> Finding | None:
    if any(group.working_dir == "data" for group in job.groups):
        return Finding(path=("tasks",), problem="expected an absolute path")
    return check_job(job, level)


MUTATIONS: dict[str, Callable[[JobSpec, int], Finding | None]] = {
    "the file is judged by the rules of before": lambda job, _: check_job(job, FeatureLevel.FIRST),
    "the file has a rule of its own": _directories_are_absolute,
    "the file is not judged": lambda *_: None,
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_jobs_that_are_judged_otherwise_are_noticed(monkeypatch: pytest.MonkeyPatch, mutation: str) -> None:
    monkeypatch.setattr(jobfile, "check_job", MUTATIONS[mutation])
    with pytest.raises(AssertionError):
        check_jobs(300, Counter(), Phase.generate)


@pytest.mark.parametrize("rule", ["check_queues", "check_quotas"])
def test_queues_and_quotas_that_are_judged_otherwise_are_noticed(monkeypatch: pytest.MonkeyPatch, rule: str) -> None:
    monkeypatch.setattr(queue_config, rule, lambda _: None)
    with pytest.raises(AssertionError):
        check_trees(200, Counter(), Phase.generate)
