"""What a job may not have, however it asks."""

from __future__ import annotations

import resource

import pytest

from gosched.agent.runtimes.interface import CannotRun
from gosched.agent.tasks.ceilings import check_ceilings
from gosched.config.agent_settings import Ceilings
from gosched.core.orders import TaskOrder
from gosched.core.resources import Resources
from gosched.core.spec.isolation import Isolation, Rlimit

OWN_NOFILE = resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def asking(memory: int = 0, **more: object) -> TaskOrder:
    return TaskOrder(
        allocation_id="j/w/0.1",
        task_id="j/w/0",
        job_id="j",
        resources=Resources(memory_bytes=memory),
        isolation=Isolation(**more),  # type: ignore[arg-type]
    )


def rlimit(name: str, soft: int, hard: int | None = None) -> dict[str, object]:
    return {"rlimits": (Rlimit(name=name, soft=soft, hard=soft if hard is None else hard),)}


@pytest.mark.parametrize(
    ("order", "words"),
    [
        (asking(pids=32_769), "limits.pids: it asks for 32769, and this node gives at most 32768 (ceilings.pids)"),
        (asking(memory_low_bytes=1), "limits.memory_low: it asks for 1, and this node gives at most 0"),
        (asking(5, memory_low_bytes=6), "at most 5 (its resources.memory)"),
        (asking(**rlimit("rtprio", 1)), "rlimits.rtprio: it asks for 1, and this node gives at most 0"),
        (asking(**rlimit("nice", 40)), "rlimits.nice: it asks for 40"),
        (
            asking(**rlimit("memlock", -1)),
            "asks for unlimited, and this node gives at most 8388608",
        ),
        (asking(**rlimit("memlock", 0, -1)), "unlimited"),
        (asking(**rlimit("nofile", 1, OWN_NOFILE + 1)), f"at most {OWN_NOFILE} (ceilings.rlimits.nofile)"),
    ],
)
def test_more_than_the_node_gives_is_refused_and_not_its_fault(order: TaskOrder, words: str) -> None:
    with pytest.raises(CannotRun) as caught:
        check_ceilings(order, Ceilings())
    assert words in caught.value.detail
    assert (caught.value.reason, caught.value.blames_node) == ("LIMIT_NOT_ALLOWED", False)


@pytest.mark.parametrize(
    "order",
    [
        asking(),
        asking(pids=32_768),
        asking(5, memory_low_bytes=5),
        asking(**rlimit("nofile", 1, OWN_NOFILE)),
        asking(**rlimit("memlock", 8 << 20)),
        asking(**rlimit("core", 0)),
        asking(**rlimit("luck", 1)),  # the kernel does not know it: BAD_LIMIT says so
    ],
)
def test_what_the_node_gives_anybody_is_not(order: TaskOrder) -> None:
    check_ceilings(order, Ceilings())


def test_the_operator_says_how_much() -> None:
    given = {"pids": 100, "memory_low": "1Gi", "rlimits": {"memlock": "unlimited", "rtprio": 10, "nofile": 64}}
    ceilings = Ceilings.model_validate(given)
    for order in (
        asking(pids=100),
        asking(memory_low_bytes=1 << 30),
        asking(**rlimit("memlock", -1)),
        asking(**rlimit("rtprio", 10)),
    ):
        check_ceilings(order, ceilings)
    for order in (asking(pids=101), asking(2 << 30, memory_low_bytes=2 << 30), asking(**rlimit("nofile", 65))):
        with pytest.raises(CannotRun, match="gives at most"):
            check_ceilings(order, ceilings)
