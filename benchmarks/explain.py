"""How long the whole explanation of one job takes that waits among 100,000 on 2,000 nodes: a view of the state, and
another look at that job alone, as a master does it when somebody asks."""

from __future__ import annotations

import statistics
import time

from benchmarks.report import Report
from benchmarks.workloads import CAPACITY_QUEUES, DAY_S, storm, storm_nodes
from gosched.scheduling import Policy, ViewBuilder
from gosched.scheduling.queries.explain_on_request import explain_on_request
from gosched.scheduling.rng_seed import seed_of
from gosched.sim.cluster.report import percentile
from gosched.sim.cluster.simulator import START_MS, Simulator

POLICY = Policy(topology=("zone", "rack"))
ASKED = 50


def main() -> None:
    report = Report()
    count, cluster = (300, 20) if report.smoke else (100_000, 2000)
    simulator = Simulator(
        storm(count, 0, 1), storm_nodes(cluster), POLICY, queues=CAPACITY_QUEUES, period_ms=DAY_S * 1000
    )
    simulator.run(0)
    state = simulator.state
    builder = ViewBuilder()
    builder.reset(state)
    pending = list(state.pending)
    asked = pending[:: max(1, len(pending) // ASKED)]
    times, said = [], 0
    for job_id in asked:
        began = time.perf_counter()
        view = builder.view(state)
        why = explain_on_request(view, POLICY, job_id, START_MS, seed_of(state.epoch, state.revision))
        times.append(1000 * (time.perf_counter() - began))
        said += why is not None
    if said < len(asked):
        raise SystemExit(f"{len(asked) - said} of {len(asked)} jobs have no explanation")
    report.add("explain_one_of_many_p50", statistics.median(times), "ms", len(pending))
    report.add("explain_one_of_many_p95", percentile(sorted(times), 95), "ms", len(pending))
    report.add("explain_one_of_many_max", max(times), "ms", len(pending))


if __name__ == "__main__":
    main()
