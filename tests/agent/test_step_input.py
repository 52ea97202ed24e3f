"""What happens to the input of a step where a task or a rank of it is gone."""

from __future__ import annotations

import asyncio
from typing import Any

from gosched.agent.slurm.step_input import Passing, RankInputs, encoded


class Heard:
    """The other side of a channel."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    def send(self, **message: Any) -> None:
        self.messages.append(message)


def test_srun_is_told_once_when_the_last_task_has_the_part_or_is_gone() -> None:
    srun, members = Heard(), {0: Heard(), 2: Heard(), 5: Heard()}
    passing = Passing(srun)  # type: ignore[arg-type]
    passing.pass_on("eA==", 7, [2, 5], members)  # type: ignore[arg-type]
    assert [len(member.messages) for member in members.values()] == [0, 1, 1]
    assert members[2].messages == [{"do": "input", "step": 7, "part": "eA=="}]
    passing.on_taken(0)  # another one's loss
    passing.on_taken(5)
    passing.on_taken(5)
    assert srun.messages == []
    passing.on_taken(2)
    passing.on_taken(2)
    assert srun.messages == [{"did": "took"}]


def test_a_part_waits_for_ranks_that_start_and_for_none_that_failed_to() -> None:
    async def story() -> None:
        inputs = RankInputs()
        inputs.expect(1, 0)
        inputs.expect(1, 1)
        inputs.expect(2, 0)
        giving = asyncio.create_task(inputs.give(1, encoded(b"part")))
        inputs.on_end(1, 1)
        await asyncio.sleep(0.05)
        assert not giving.done()
        pipe = asyncio.subprocess.PIPE
        cat = await asyncio.create_subprocess_exec("cat", stdin=pipe, stdout=pipe)
        inputs.on_start(1, 0, cat.stdin)
        async with asyncio.timeout(30):
            await giving
            await inputs.give(1, "")
            assert cat.stdout is not None
            assert await cat.stdout.read() == b"part"
            await cat.wait()
            await inputs.give(1, encoded(b"late"))  # it has ended

    asyncio.run(story())
