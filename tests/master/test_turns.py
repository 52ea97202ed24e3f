"""Crowds of calls and long lists leave the event loop to others between any two steps."""

from __future__ import annotations

import asyncio
import time

from gosched.master.base.turns import Turns, sliced

STEP_S = 0.002


async def longest_turn(crowd: asyncio.Future[list[None]]) -> float:
    """Return the longest time between two turns of the loop until the crowd is done."""
    longest, before = 0.0, time.monotonic()
    while not crowd.done():
        await asyncio.sleep(0)
        longest, before = max(longest, time.monotonic() - before), time.monotonic()
    return longest


def test_a_crowd_of_calls_begins_one_by_one_in_order_and_says_that_the_front_works() -> None:
    said, begun = 0, []

    def say() -> None:
        nonlocal said
        said += 1

    async def main() -> float:
        turns = Turns(say)

        async def call(number: int) -> None:
            await turns.begin()
            begun.append(number)
            time.sleep(STEP_S)

        return await longest_turn(asyncio.gather(*[call(number) for number in range(100)]))

    longest = asyncio.run(main())
    assert begun == list(range(100))
    assert said == 100
    assert longest < 0.1, "all at once would be 0.2 s"


def test_a_long_list_is_gone_through_in_slices() -> None:
    async def main() -> tuple[list[int], float]:
        found: list[int] = []

        async def work() -> None:
            async for item in sliced(range(100)):
                time.sleep(STEP_S)
                found.append(item)

        longest = await longest_turn(asyncio.gather(work()))
        return found, longest

    found, longest = asyncio.run(main())
    assert found == list(range(100))
    assert longest < 0.1, "all at once would be 0.2 s"
