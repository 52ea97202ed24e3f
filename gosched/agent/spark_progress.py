"""What applications of Spark whose drivers run here say of themselves: for the heartbeats.

Invariant: they are asked beside the heartbeats, each within a bound; what one says is bounded, and is believed only if
it is the application of the task.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NoReturn
from urllib.parse import quote

import structlog

from gosched.agent.beneath import open_file, opened
from gosched.agent.runtimes.spark import own_host
from gosched.agent.runtimes.spark_role import UI_PORT_FILE
from gosched.agent.tasks.table import Tasks
from gosched.agent.tasks.task import Task
from gosched.agent.upkeep import in_thread
from gosched.api.spark import SparkProgress, StageProgress
from gosched.core.records.task import TaskState
from gosched.core.spec.task_group import SPARK_DRIVER, Runtime
from gosched.core.text import printable
from gosched.integrations.spark.errors import SparkBadAnswer, SparkError
from gosched.integrations.spark.monitoring import SparkClient
from gosched.integrations.spark.records import SparkStage

EVERY_S = 4.0  # less than a heartbeat
TIMEOUT_S = 5.0  # of one request
MAX_BYTES = 4 << 20  # of one answer: about 1,000 stages at once
AT_ONCE = 4
MAX_STAGES = 8
MAX_NAME_LENGTH = 100
MAX_ADDRESS_LENGTH = 500
_PORT_DIGITS = 5
_MAX_INT = (1 << 31) - 1  # of Spark, and of the message


@dataclass(frozen=True, slots=True, kw_only=True)
class _Application:
    """What does not change while it runs."""

    id: str
    #: Its address on the history server; empty: none is known.
    history: str
    #: How many tasks an executor runs at once; 0: the number of executors is fixed.
    tasks_each: int


class SparkProgresses:
    """Applications by the allocation of their driver."""

    def __init__(self, tasks: Tasks) -> None:
        self._tasks = tasks
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._known: dict[str, _Application] = {}
        self._said: dict[str, SparkProgress] = {}

    def now(self) -> Mapping[str, SparkProgress]:
        """Return what those say that answer."""
        return dict(self._said)

    async def run(self) -> NoReturn:
        while True:
            await asyncio.sleep(EVERY_S)
            await self.look()

    async def look(self) -> None:
        """Ask all that run."""
        drivers = [task for task in self._tasks.running() if _is_driver(task)]
        await asyncio.gather(*[self._look_in_thread(task) for task in drivers])
        for gone in {*self._said, *self._known} - {task.order.allocation_id for task in drivers}:
            self._said.pop(gone, None)
            self._known.pop(gone, None)

    async def _look_in_thread(self, task: Task) -> None:
        async with self._turn:
            await in_thread(partial(self._look, task))

    def _look(self, task: Task) -> None:
        allocation_id = task.order.allocation_id
        try:
            self._said[allocation_id] = self._ask(task)
        except (SparkError, OSError) as error:  # it has not begun, or is about to end, or hides its UI
            self._said.pop(allocation_id, None)
            structlog.get_logger().debug("a Spark application says nothing", allocation=allocation_id, why=str(error))

    def _ask(self, task: Task) -> SparkProgress:
        """Raises SparkError, OSError."""
        env = dict(task.order.env)
        host = own_host(env)  # by the master's word: a job's own variables do not send this agent elsewhere
        host = f"[{host}]" if ":" in host else host
        url = f"http://{host}:{_ui_port(task)}"
        client = SparkClient(url, timeout_s=TIMEOUT_S, max_bytes=MAX_BYTES)
        apps = client.applications(limit=1)
        if not apps:
            raise SparkBadAnswer(f"{url} names no application")
        known = self._known.get(task.order.allocation_id)
        if known is None or known.id != apps[0].id:
            settings = client.settings(apps[0].id)
            own = f"spark://{host}:{env.get('MASTER_PORT', '')}"
            if settings.get("spark.master") != own:
                raise SparkBadAnswer(f"{url} is the UI of an application of another master than {own}")
            known = _Application(
                id=apps[0].id, history=history_address(settings, apps[0].id), tasks_each=tasks_each(settings)
            )
            self._known[task.order.allocation_id] = known
        stages = sorted(
            client.stages(known.id, statuses=("active", "pending")), key=lambda stage: (stage.id, stage.attempt)
        )
        shown = [stage for stage in stages if stage.status == "ACTIVE"][:MAX_STAGES]
        return SparkProgress(
            application=printable(known.id)[:MAX_NAME_LENGTH],
            ui=url,
            history=known.history,
            stages=tuple(
                [
                    StageProgress(
                        id=min(stage.id, _MAX_INT),
                        attempt=min(stage.attempt, _MAX_INT),
                        name=printable(stage.name)[:MAX_NAME_LENGTH],
                        tasks=stage.tasks,
                        done=stage.done,
                        running=stage.running,
                        failed=stage.failed,
                    )
                    for stage in shown
                ]
            ),
            more_stages=len(stages) - len(shown),
            executors=_executors(stages, known.tasks_each) if known.tasks_each else None,
        )


def tasks_each(settings: Mapping[str, str]) -> int:
    """Return how many tasks an executor of the application runs at once; 0: the number of its executors is fixed."""
    if settings.get("spark.dynamicAllocation.enabled") != "true":
        return 0
    cores, cpus = settings.get("spark.executor.cores", ""), settings.get("spark.task.cpus", "1")
    return max(1, int(cores) // max(1, int(cpus))) if cores.isdecimal() and cpus.isdecimal() else 1


def _executors(stages: Sequence[SparkStage], tasks_each: int) -> int:
    """Return how many executors have work in the stages that run, as Spark's own allocation manager counts them."""
    tasks = sum([max(0, stage.tasks - stage.done) for stage in stages if stage.status == "ACTIVE"])
    return min(-(-tasks // tasks_each), _MAX_INT)


def history_address(settings: Mapping[str, str], id: str) -> str:
    """Return where the history server has an application that logs its events; empty: no such server is named. The
    setting is that of Spark's own master for its page."""
    server = settings.get("spark.master.ui.historyServerUrl", "").rstrip("/")
    if settings.get("spark.eventLog.enabled") != "true" or not server.startswith(("http://", "https://")):
        return ""
    found = f"{server}/history/{quote(id, safe='')}/"
    return found if len(found) <= MAX_ADDRESS_LENGTH and found.isascii() and found.isprintable() else ""


def _is_driver(task: Task) -> bool:
    order = task.order
    is_one = order.runtime is Runtime.SPARK and order.command[:1] == (SPARK_DRIVER,)
    return is_one and task.state is TaskState.RUNNING and not task.frozen  # which would not answer


def _ui_port(task: Task) -> int:
    """Return the port that its program has written: a word of the task's user, so any. Raises OSError, SparkError."""
    with opened(task.spool.path / "work", os.O_PATH | os.O_DIRECTORY) as work:
        file = open_file(work, f"spark/{UI_PORT_FILE}")
    with open(file, "rb") as written:
        text = written.read(_PORT_DIGITS + 1).decode(errors="replace").strip()
    if not (text.isascii() and text.isdecimal() and 0 < int(text) < 1 << 16):
        raise SparkBadAnswer("it has no UI at a port that is known")
    return int(text)
