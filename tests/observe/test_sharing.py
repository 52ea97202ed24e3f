"""What queues and tenants are seen to hold: the sums of a small cluster, worked out by hand."""

from __future__ import annotations

import pytest
from prometheus_client.parser import text_string_to_metric_families

from gosched.core.commands.cluster import SetQueues
from gosched.core.commands.command import Command as Asked
from gosched.core.commands.jobs import SubmitJob
from gosched.core.commands.nodes import RegisterNode
from gosched.core.commands.plans import CommitPlan, GangPlacement
from gosched.core.outcome import Accepted
from gosched.core.records.allocation import TaskPlacement
from gosched.core.records.queue import Queue
from gosched.core.records.tenant import Quota
from gosched.core.resources import Resources
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import GangPolicy
from gosched.core.spec.task_group import TaskGroup
from gosched.core.state.cluster_state import ClusterState
from gosched.observe.counts import ClusterCounts
from gosched.observe.metrics import ClusterFacts, MasterMetrics, RaftFacts
from gosched.observe.sharing import QueueUse, queue_uses, tenant_uses
from gosched.state_machine import apply

GI = 1 << 30
QUEUES = (
    Queue(path="research"),
    Queue(path="research.llm", limit=(("gpu", 6000),)),
    Queue(path="research.vision"),
    Queue(path="default"),
)


def _spec(name: str, queue: str, tenant: str, gpus: int) -> JobSpec:
    each = Resources(cpu_millis=2000, memory_bytes=GI, gpu_millis=gpus * 1000)
    group = TaskGroup(name="g", count=1, resources=each, gpu_model="h100" if gpus else "", command=("x",))
    return JobSpec(name=name, queue=queue, tenant=tenant, gang=GangPolicy(min_tasks=1), groups=(group,))


@pytest.fixture
def state() -> ClusterState:
    """research.llm runs a (2 GPUs), research.vision runs b, research.llm waits for c (4 GPUs)."""
    made = ClusterState()
    node = Resources(cpu_millis=16_000, memory_bytes=16 * GI, gpu_millis=8000)
    for body in (
        SetQueues(queues=QUEUES),
        RegisterNode(node_id="n", name="n", address="h:1", incarnation="i", capacity=node, gpu_model="h100"),
        SubmitJob(job_id="a", spec=_spec("a", "research.llm", "nlp", 2)),
        SubmitJob(job_id="b", spec=_spec("b", "research.vision", "cv", 0)),
        SubmitJob(job_id="c", spec=_spec("c", "research.llm", "nlp", 4)),
        CommitPlan(
            revision=0,
            gangs=(
                GangPlacement(job_id="a", attempt=1, tasks=(TaskPlacement(rank=0, node_id="n", gpus=(0, 1)),)),
                GangPlacement(job_id="b", attempt=1, tasks=(TaskPlacement(rank=0, node_id="n"),)),
            ),
        ),
    ):
        outcome, _ = apply(made, Asked(body=body, at_ms=made.clock_ms + 1))
        assert isinstance(outcome, Accepted), outcome
        assert not outcome.refusals
    return made


def _uses(state: ClusterState) -> dict[str, QueueUse]:
    counts = ClusterCounts()
    counts.reset(state)
    return queue_uses(state, counts, {"research.llm": {"cpu": 8000, "gpu": 1000, "memory": 0}})


def test_an_inner_queue_shows_the_sums_of_the_queues_below_it(state: ClusterState) -> None:
    uses = _uses(state)
    assert uses["research.llm"].used == {"cpu": 2000, "memory": GI, "gpu": 2000, "gpu:h100": 2000}
    assert uses["research"].used == {"cpu": 4000, "memory": 2 * GI, "gpu": 2000, "gpu:h100": 2000}
    assert uses["research"].demand == {"cpu": 2000, "memory": GI, "gpu": 4000, "gpu:h100": 4000}
    assert (uses["research"].running, uses["research"].pending) == (2, 1)
    assert uses["default"].used == {}


def test_the_share_ratio_is_of_the_resource_that_exceeds_its_share_most(state: ClusterState) -> None:
    uses = _uses(state)
    assert uses["research.llm"].fair_share_ratio == 2.0
    assert uses["research"].fair_share_ratio is None


def test_a_tenant_shows_what_it_holds_by_gpu_model_and_its_running_jobs(state: ClusterState) -> None:
    state.put_quota(Quota(tenant="idle", max_running_jobs=1))
    uses = tenant_uses(state)
    assert {tenant: use.running_jobs for tenant, use in uses.items()} == {"idle": 0, "nlp": 1, "cv": 1}
    assert uses["nlp"].used == {"cpu": 2000, "memory": GI, "gpu": 2000, "gpu:h100": 2000}


def test_metrics_show_used_fair_share_and_limit_by_unit(state: ClusterState) -> None:
    counts, metrics = ClusterCounts(), MasterMetrics("v")
    raft = RaftFacts(is_leader=True, term=1, commit_index=1, applied_index=1, log_bytes=0, feature_level=5)
    metrics.show(lambda: raft, lambda: ClusterFacts(counts=counts, queues=_uses(state)))
    metrics.plugin_failed("spark")
    found = {
        (sample.name, *sorted(sample.labels.values())): sample.value
        for family in text_string_to_metric_families(metrics.text().decode())
        for sample in family.samples
    }
    assert found["gosched_queue_gpus", "research.llm", "used"] == 2
    assert found["gosched_queue_gpus", "fair_share", "research.llm"] == 1
    assert found["gosched_queue_gpus", "limit", "research.llm"] == 6
    assert ("gosched_queue_gpus", "limit", "research") not in found
    assert found["gosched_queue_memory_bytes", "research", "used"] == 2 * GI
    assert found["gosched_queue_fair_share_ratio", "research.llm"] == 2
    assert ("gosched_queue_fair_share_ratio", "default") not in found
    assert found["gosched_plugin_faults_total", "spark"] == 1
