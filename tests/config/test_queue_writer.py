"""What is written of queues and quotas is read as the same."""

from __future__ import annotations

import random

import pytest
import yaml

from gosched.config import parse_queue_file
from gosched.config.queue_writer import queues_keys
from gosched.core.records.queue import Queue, QueueOrder, QueueType
from gosched.core.records.tenant import Quota
from gosched.core.resources import AmountMap
from gosched.core.spec.policies import PreemptionPolicy

PATHS = ["default", "research", "research.llm", "research.vision", "research.vision.a", "web", "web.x"]
RESOURCES = ["cpu", "memory", "storage", "gpu", "gpu:h100", "fpga"]
PREEMPTIONS = [PreemptionPolicy[name] for name in ("UNSPECIFIED", "NEVER", "LOWER_PRIORITY", "OBSERVE_ONLY")]


def amounts(chance: random.Random) -> AmountMap:
    named = sorted(chance.sample(RESOURCES, chance.randrange(len(RESOURCES))))
    return tuple((name, chance.choice([0, 1, 999, 1000, 1536, 1 << 20, 3 << 30, (1 << 40) + 1])) for name in named)


def tree(chance: random.Random) -> tuple[Queue, ...]:
    chosen = {"default", *chance.sample(PATHS, chance.randrange(1, len(PATHS)))}
    paths = {path.rsplit(".", n)[0] for path in chosen for n in range(path.count(".") + 1)}
    return tuple(
        Queue(
            path=path,
            type=chance.choice([QueueType.FIFO, QueueType.FAIR]),
            weight=chance.choice([1, 7]),
            max_pct=chance.choice([100, 50]),
            limit=amounts(chance),
            order=chance.choice([*QueueOrder]),
            max_running_jobs=chance.choice([0, 3]),
            tenants=chance.choice([(), ("a",), ("a", "b")]),
            half_life_ms=chance.choice([0, 60_000, 60_001, 90_000, 86_400_000]),
            preemption=chance.choice(PREEMPTIONS),
        )
        for path in sorted(paths)
    )


@pytest.mark.parametrize("seed", range(20))
def test_a_written_tree_is_read_as_it_was(seed: int) -> None:
    chance = random.Random(seed)
    queues, quota = tree(chance), Quota(tenant="nlp", limit=amounts(chance), max_running_jobs=2)
    text = yaml.safe_dump(queues_keys(queues, [quota]), sort_keys=False)
    found, found_quotas = parse_queue_file(text, "f")
    assert sorted(found, key=lambda q: q.path) == [*queues]
    assert found_quotas == (quota,)


def test_what_a_capacity_queue_is_guaranteed_is_written() -> None:
    guaranteed = (("cpu", 1500), ("gpu", 500), ("memory", 1 << 30))
    queues = (
        Queue(path="a", type=QueueType.CAPACITY, guaranteed=guaranteed),
        Queue(path="b", type=QueueType.CAPACITY, capacity_pct=30),
        Queue(path="default"),
    )
    written = queues_keys(queues)
    assert written["queues"][0]["guaranteed"] == {"cpu": "1500m", "gpu": "0.500", "memory": "1Gi"}
    assert parse_queue_file(yaml.safe_dump(written), "f") == (queues, None)
