"""How much of a GPU cluster each strategy gets allocated: on the openb traces, against the published table, and on
drawn clusters where CPUs are short.

The recipe: 130 % of the cluster's GPUs arrive, one task at a time, and nothing leaves; a task that does not fit is
gone. That is one cycle over a queue in order of arrival. Figures are means over seeds of allocated GPUs in percent.

Where CPUs are short, `one_node` is what one node with all CPUs and GPUs would get allocated: no bound, as a cluster can
do better when it refuses tasks that need much CPU, but what is there to gain by placement.
"""

from __future__ import annotations

import statistics

from benchmarks import cpu_short, openb
from benchmarks.report import Report
from gosched.core.records.queue import QueueOrder
from gosched.core.spec.placement_rules import Strategy
from gosched.core.state.cluster_state import ClusterState
from gosched.scheduling import Policy, ViewBuilder, schedule

SEEDS = range(42, 52)
DRAWN_SEEDS = range(600, 620)
POLICIES = {"best": Strategy.BINPACK, "fgd": Strategy.FRAGMENTATION, "waste": Strategy.EXPECTED_WASTE}
ALL = 1_000_000
POLICY = Policy(order=QueueOrder.FIFO, max_tasks=ALL, max_misses=ALL)


def main() -> None:
    report = Report()
    source = openb.SAMPLE if report.smoke else openb.folder()
    seeds = SEEDS[:1] if report.smoke else SEEDS
    prefix = "openb_sample" if source == openb.SAMPLE else "openb"
    published = openb.published(source)
    for trace in openb.TRACES:
        for policy, strategy in POLICIES.items():
            figures = [allocated_percent(openb.draw(source, trace, seed, strategy)) for seed in seeds]
            mean = statistics.mean(figures)
            report.add(f"{prefix}_{policy}_{trace}", mean, "%", len(figures))
            rival = "fgd" if policy == "waste" else policy  # our own has no figure of its own to reach
            if (trace, rival) in published:
                difference = mean - published[trace, rival]
                report.add(f"{prefix}_{policy}_{trace}_minus_published_{rival}", difference, "points", len(figures))
    drawn = DRAWN_SEEDS[:1] if report.smoke else DRAWN_SEEDS
    for policy, strategy in POLICIES.items():
        mean = statistics.mean([allocated_percent(cpu_short.draw(seed, strategy)) for seed in drawn])
        report.add(f"cpu_short_{policy}", mean, "%", len(drawn))
    mean = statistics.mean([one_node_percent(cpu_short.draw(seed, Strategy.BINPACK)) for seed in drawn])
    report.add("cpu_short_one_node", mean, "%", len(drawn))


def allocated_percent(run: openb.Run) -> float:
    state = ClusterState()
    for node in run.nodes:
        state.put_node(node)
    for job in run.jobs:
        state.put_job(job)
    builder = ViewBuilder()
    builder.reset(state)
    plan = schedule(builder.view(state), POLICY, 0, 1)
    placed = [state.jobs[gang.job_id].spec.groups[0].resources.gpu_millis for gang in plan.gangs]
    return 100 * sum(placed) / run.gpu_millis


def one_node_percent(run: openb.Run) -> float:
    cpu = sum([node.capacity.cpu_millis for node in run.nodes])
    gpu = run.gpu_millis
    for job in run.jobs:
        asked = job.spec.groups[0].resources
        if asked.cpu_millis <= cpu and asked.gpu_millis <= gpu:
            cpu -= asked.cpu_millis
            gpu -= asked.gpu_millis
    return 100 * (run.gpu_millis - gpu) / run.gpu_millis


if __name__ == "__main__":
    main()
