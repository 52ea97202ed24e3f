from __future__ import annotations

import pytest

from gosched.core.records.queue import Queue
from gosched.core.records.tenant import Quota
from gosched.scheduling.fairness.limit import limit_warnings
from tests.config.test_writer import read

QUEUES = {
    queue.path: queue
    for queue in (
        Queue(path="default"),
        Queue(path="small", limit=(("cpu", 8000), ("memory", 3 << 39))),
        Queue(path="small.deep"),
        Queue(path="half", max_pct=50),
        Queue(path="both", max_pct=50, limit=(("cpu", 1000),)),
    )
}
QUOTAS = {"nlp": Quota(tenant="nlp", limit=(("gpu", 2000),))}
TOTAL = {"cpu": 16_000, "memory": 1 << 40, "gpu": 8000}


@pytest.mark.parametrize(
    ("job", "lines"),
    [
        ("resources: {cpu: 16}", []),
        ("queue: small, resources: {cpu: 4}, count: 2", []),
        (
            "queue: small, resources: {cpu: 4}, count: 3",
            ["queue small: the job needs 12 CPUs, its limit is 8: waiting does not help"],
        ),
        ("queue: small, resources: {cpu: 4}, count: 3, gang: {min: 2}", []),  # the others join where they may
        (
            "queue: small.deep, resources: {memory: 2Ti}",
            ["queue small: the job needs 2Ti of memory, its limit is 1.5Ti: waiting does not help"],
        ),
        (
            "queue: half, resources: {cpu: 9}",
            [
                "queue half: the job needs 9 CPUs, its max_pct of 50 allows 8 in the cluster as it is: waiting does not"
                " help"
            ],
        ),
        (
            "queue: both, resources: {cpu: 2}",
            ["queue both: the job needs 2 CPUs, its limit is 1: waiting does not help"],
        ),
        (
            "tenant: nlp, resources: {gpu: 4}",
            ["quota of tenant nlp: the job needs 4 GPUs, its limit is 2: waiting does not help"],
        ),
        (
            "tenant: nlp, queue: small, resources: {gpu: 4, cpu: 16}",
            [
                "queue small: the job needs 16 CPUs, its limit is 8: waiting does not help",
                "quota of tenant nlp: the job needs 4 GPUs, its limit is 2: waiting does not help",
            ],
        ),
    ],
)
def test_limits_that_could_never_hold_a_job_are_named(job: str, lines: list[str]) -> None:
    assert limit_warnings(QUEUES, QUOTAS, TOTAL, read(f"{{name: j, run: x, {job}}}")) == lines


def test_no_percentage_of_an_empty_cluster_is_an_obstacle() -> None:
    assert limit_warnings(QUEUES, QUOTAS, {}, read("{name: j, run: x, queue: half}")) == []
