"""What the agent does beside serving and reporting, for as long as it runs."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, NoReturn

import structlog

from gosched.agent.datadir import DataDir, DataDirError
from gosched.agent.host import Host
from gosched.agent.tasks.table import Tasks

CLEAN_EVERY_S = 30.0
RUNTIMES_EVERY_S = 30.0
IN_PLACE_EVERY_S = 2.0


async def until_first(*works: Any) -> None:
    """Cancel all once one has ended, and raise what that one raised."""
    running = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
        for work in done:
            work.result()
    finally:
        for work in running:
            work.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def watch_data_dir(data_dir: DataDir) -> NoReturn:
    """Raise DataDirError once the directory has gone: what this agent stores and orders is lost from then on."""
    while await asyncio.to_thread(data_dir.is_in_place):
        await asyncio.sleep(IN_PLACE_EVERY_S)
    raise DataDirError(
        f"the data directory {data_dir.path} was removed or replaced while the agent ran: put it back before the agent "
        "is started again, or its tasks are ended then"
    )


async def look_after(joined: asyncio.Event, host: Host, tasks: Tasks) -> NoReturn:
    """Remove what earlier agents left, once the masters have said what they know of; then look which runtimes work."""
    await joined.wait()
    # Looked for here, between two orders: what starts from now on is none of them.
    orphans = host.orphans(tasks.names())
    live = [task.order.allocation_id for task in tasks.running()]
    await in_thread(partial(host.remove_orphans, orphans, live, time.time()))
    while True:
        await asyncio.sleep(RUNTIMES_EVERY_S)
        await in_thread(host.look)
        host.log_problems()


async def clean(tasks: Tasks, keep_s: float) -> None:
    while True:
        await asyncio.sleep(min(CLEAN_EVERY_S, keep_s))
        await tasks.clean(keep_s)


async def in_thread(work: Callable[[], None]) -> None:
    """Run it in a thread that the agent's end does not wait for: a Docker daemon may not answer."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def run() -> None:
        try:
            work()
        except Exception:
            structlog.get_logger().exception("a look at this machine failed")
        finally:
            call_soon(loop, done.set)

    threading.Thread(target=run, daemon=True).start()
    await done.wait()


def call_soon(loop: asyncio.AbstractEventLoop, what: Callable[[], None]) -> None:
    """Call it in the loop from another thread, which may outlive the loop."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(what)
