from __future__ import annotations

import asyncio

from gosched.master.base.cancel import cancel_all


def test_a_task_that_swallows_a_cancellation_is_ended_all_the_same() -> None:
    async def story() -> None:
        swallowed = 0

        async def stubborn() -> None:
            nonlocal swallowed
            while True:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    swallowed += 1
                    if swallowed == 2:
                        raise

        task = asyncio.ensure_future(stubborn())
        await asyncio.sleep(0)
        async with asyncio.timeout(30):
            await cancel_all([task])
        assert task.cancelled()
        assert swallowed == 2

    asyncio.run(story())
