"""One trace for both schedulers: all queues have their demand at once, and the cluster fills up.

`simulated` is gosched's own scheduler on a virtual clock. `yarn_fill` is a reference of YARN's rule, written from its
documentation: each container goes down the tree, at every level to the queue that holds the least of its own guarantee,
unless it is at its ceiling. What a real ResourceManager does with the trace is in tests/integration/test_yarn.py.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from gosched.core.records.queue import Queue
from gosched.scheduling.policy import Policy
from gosched.sim.cluster.simulator import Simulator
from gosched.sim.cluster.traces import read_nodes
from gosched.sim.cluster.traces.native import read


def simulated(queues: Sequence[Queue], demand: Mapping[str, int], cpus: int) -> dict[str, int]:
    """Return how many CPUs each queue has once the cluster is full. The tasks are jobs of one CPU; how many jobs may
    run in a queue is not the subject, and left out."""
    jobs = {queue: f"array: {{range: 1-{wanted}}}, resources: {{cpu: 1}}" for queue, wanted in demand.items() if wanted}
    lines = [f"- {{at: 0s, duration: 1h, job: {{name: j, queue: {queue}, {job}}}}}" for queue, job in jobs.items()]
    rules = [replace(queue, max_running_jobs=0) for queue in queues]
    nodes = read_nodes(f"- {{count: 1, name: n, cpu: {cpus}, memory: 1Ti}}", "nodes")
    found = Simulator(read("\n".join(lines), "trace").jobs, nodes, Policy(), queues=rules).run()
    held = Counter(job.queue for job in found.jobs.values() if job.attempts and job.attempts[0].start_ms == 0)
    return {queue: held[queue] for queue in demand}


@dataclass(slots=True, kw_only=True)
class YarnLike:
    """A queue of the reference, from `root` on; both percentages are of its parent's."""

    capacity: Fraction
    maximum: Fraction = Fraction(100)
    children: Mapping[str, YarnLike] = None  # type: ignore[assignment]
    wanted: int = 0
    held: int = 0


def yarn_fill(root: YarnLike, demand: Mapping[str, int], containers: int) -> dict[str, int]:
    """Return how many containers each leaf has once the cluster is full."""
    leaves: dict[str, YarnLike] = {}

    def prepare(queue: YarnLike, path: str, share: Fraction, most: Fraction) -> None:
        queue.capacity, queue.maximum = share, most  # of the cluster from here on, in containers
        if not queue.children:
            leaves[path] = queue
            queue.wanted = demand.get(path, 0)
        for name, child in (queue.children or {}).items():
            below = f"{path}.{name}" if path else name
            prepare(child, below, share * child.capacity / 100, most * child.maximum / 100)

    def give(queue: YarnLike) -> bool:
        if queue.held + 1 > queue.maximum:
            return False
        if not queue.children:
            given = queue.held < queue.wanted
        else:
            line = sorted(queue.children.values(), key=lambda child: child.held / child.capacity)
            given = any(give(child) for child in line)
        queue.held += given
        return given

    prepare(root, "", Fraction(containers), Fraction(containers))
    while give(root):
        pass
    return {path: leaves[path].held for path in demand}
