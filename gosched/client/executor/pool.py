"""GoSchedExecutor: calls of Python functions on the cluster, with the interface of `concurrent.futures`.

The workers are the elements of array jobs, which start as there is room, and end when there is nothing to do. Functions
and results go through the masters (exec), so a client behind a firewall needs no shared directory and no open port.

Invariant: each future that was returned ends: with the value, with what the function raised, with WorkerLost after
`retries` lost workers, or with BrokenPool when no worker can come.
"""

from __future__ import annotations

import atexit
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future
from contextlib import suppress
from itertools import chain, count, islice
from typing import Any, ParamSpec, TypeVar

from gosched.client.arguments import checked
from gosched.client.client import GoSchedClient
from gosched.client.errors import GoSchedError, Misused, Unavailable
from gosched.client.executor.fleet import END_S, Fleet
from gosched.client.executor.link import Item, Link
from gosched.client.executor.pickling import cloudpickle, dumped, exception_of, value_of
from gosched.client.handle import JobHandle

P = ParamSpec("P")
T = TypeVar("T")

MAX_WORKERS = 256  # each is a thread and a stream of this process
LOOK_S = 0.5  # between two looks at which workers run
BATCH_S = 0.02  # calls that come together make one array
FAILED_STARTS = 3  # of workers, before any has answered
FAILURES = 3  # of workers, times `max_workers`


class WorkerLost(GoSchedError):
    """The worker of a call was lost, and so were those that it was given to after that."""


class BrokenPool(GoSchedError, BrokenExecutor):
    """No worker can come any more, such as where none starts; all open futures have it."""


class GoSchedExecutor(Executor):
    """Runs calls on the cluster: `with GoSchedExecutor(client) as pool: list(pool.map(function, items))`.

    `client`: a GoSchedClient, or its endpoints; None: those that goschedctl uses. `max_workers`: that run at once; each
    has `resources` and works on one call at a time. `image`, `queue`, `tenant`, `env`: as in a job file, and `job` has
    any other of its keys. `python`: the interpreter of the tasks; it must be of this process's version, pythonX.Y by
    default. `idle_s`: a worker without a call ends after it. `retries`: how often a call is given to another worker
    when its own is lost; a call may run more than once.
    """

    @checked
    def __init__(
        self,
        client: GoSchedClient | str | None = None,
        *,
        max_workers: int = 8,
        resources: Mapping[str, object] | None = None,
        image: str | None = None,
        queue: str | None = None,
        tenant: str | None = None,
        env: Mapping[str, str | int] | None = None,
        name: str = "executor",
        python: str = "",
        idle_s: float = 60.0,
        retries: int = 2,
        job: Mapping[str, object] | None = None,
    ) -> None:
        cloudpickle()
        if not 1 <= max_workers <= MAX_WORKERS:
            raise Misused(f"GoSchedExecutor(): max_workers: expected 1 to {MAX_WORKERS}, got {max_workers}")
        self._own_client = not isinstance(client, GoSchedClient)
        self._client = client if isinstance(client, GoSchedClient) else GoSchedClient(client)
        given = {"resources": resources, "image": image, "queue": queue, "tenant": tenant, "env": env}
        keys = {**(job or {}), **{key: value for key, value in given.items() if value is not None}}
        mine = f"python{sys.version_info.major}.{sys.version_info.minor}"
        self._fleet = Fleet(self._client, name, python or mine, keys)
        self._max_workers, self._idle_s, self._retries = max_workers, idle_s, retries
        self._changed = threading.Condition()
        self._waiting: deque[Item] = deque()
        self._running = 0  # calls that are with a worker
        self._numbers = count(1)
        self._links: dict[str, Link] = {}
        self._has_greeted = False
        self._unusable: list[str] = []  # bounded by the failures that break the pool
        self._is_shut = False
        self._is_given_up = False
        self._broken: BrokenPool | None = None
        self._supervisor = threading.Thread(target=self._supervise, name="gosched-executor", daemon=True)
        self._supervisor.start()
        atexit.register(self._at_exit)

    @property
    def jobs(self) -> list[JobHandle]:
        """The array jobs of the workers so far, such as to explain why they wait."""
        return [array.job for array in self._fleet.arrays]

    def __repr__(self) -> str:
        with self._changed:
            state = "broken" if self._broken else "shut down" if self._is_shut else f"{len(self._links)} workers"
            return f"<GoSchedExecutor: {state}, {self._running} calls run, {len(self._waiting)} wait>"

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Return the future of a call. Raises Misused where it cannot be pickled, BrokenPool, and RuntimeError after a
        shutdown, as all executors."""
        data = dumped(fn, args, kwargs)
        with self._changed:
            if self._broken is not None:
                raise BrokenPool(str(self._broken))
            if self._is_shut:
                raise RuntimeError("cannot schedule new futures after shutdown")
            item = Item(number=next(self._numbers), data=data, future=Future())
            self._waiting.append(item)
            self._changed.notify_all()
        return item.future

    def map(
        self, fn: Callable[..., T], /, *iterables: Iterable[Any], timeout: float | None = None, chunksize: int = 1
    ) -> Iterator[T]:
        """Yield the results in the order of the items. `chunksize`: how many items make one call: with many short ones
        a larger number saves most of the time. Raises TimeoutError for a result that is not there after `timeout`."""
        if chunksize < 1:
            raise Misused(f"map(): chunksize: expected 1 or more, got {chunksize}")
        results = super().map(_on_chunk(fn), _chunks(zip(*iterables, strict=False), chunksize), timeout=timeout)
        return chain.from_iterable(results)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls, and end the workers once those that were taken are done. `cancel_futures`: without those
        that have not begun."""
        with self._changed:
            self._is_shut = True
            if cancel_futures:
                for item in self._waiting:
                    item.future.cancel()
            self._changed.notify_all()
        if wait:
            self._supervisor.join()

    # What the links ask and say (see link.Office).

    def next_item(self) -> Item | None:
        ends = time.monotonic() + self._idle_s
        with self._changed:
            while not self._is_given_up:
                while self._waiting:
                    item = self._waiting.popleft()
                    if item.lost or item.future.set_running_or_notify_cancel():
                        self._running += 1
                        return item
                left = ends - time.monotonic()
                if self._broken is not None or left <= 0 or (self._is_shut and not self._running):
                    break
                self._changed.wait(left)
            self._changed.notify_all()
            return None

    def greeted(self, python: tuple[int, int]) -> bool:
        own = (sys.version_info.major, sys.version_info.minor)
        if python == own:
            self._has_greeted = True
            return True
        there, here = (".".join(map(str, version)) for version in (python, own))
        self._break(
            f"{self._fleet.python} of the tasks is Python {there}, and this process is {here}, which pickles do not"
            f" cross: name one of {here} by python=, or an image= that has it"
        )
        return False

    def done(self, item: Item, kind: bytes, data: bytes) -> None:
        with self._changed:
            self._running -= 1
            self._changed.notify_all()
        try:
            if kind == b"V":
                item.future.set_result(value_of(data))
            else:
                item.future.set_exception(exception_of(data))
        except Exception as error:  # whatever unpickling raises belongs to the call
            item.future.set_exception(error)

    def lost(self, item: Item, why: str) -> None:
        item.lost += 1
        with self._changed:
            self._running -= 1
            again = item.lost <= self._retries and self._broken is None and not self._is_given_up
            if again:
                self._waiting.appendleft(item)
            self._changed.notify_all()
        if not again:
            tries = f"{item.lost} workers were" if item.lost > 1 else "the worker was"
            item.future.set_exception(self._broken or WorkerLost(f"{tries} lost with the call, at last {why}"))

    def why_lost(self, element: str) -> str:
        return self._fleet.how_ended(element)

    def unusable(self, element: str, why: str) -> None:
        self._unusable.append(f"{element}: {why}")
        with suppress(GoSchedError):  # it may have ended; otherwise it ends by itself without a client
            self._fleet.drop(element)

    def denied(self, why: str) -> None:
        self._break(why)

    # The supervisor.

    def _supervise(self) -> None:
        try:
            while self._wait_for_work():
                try:
                    self._look()
                except Unavailable:
                    continue  # no master answers now; every call has looked for one for a while
                except GoSchedError as error:
                    self._break(str(error))
        except Exception as error:  # a mistake of the executor's own: no future may wait for ever
            self._break(repr(error), error)
        finally:
            self._end()

    def _wait_for_work(self) -> bool:
        """Wait until it is time to look again: soon where workers are missing. Return False once everything is done
        after a shutdown."""
        next_look = time.monotonic() + LOOK_S
        with self._changed:
            while True:
                self._drop_cancelled()
                is_busy = bool(self._waiting or self._running)
                if self._broken is not None or self._is_given_up or (self._is_shut and not is_busy):
                    return False
                left = next_look - time.monotonic()
                if self._missing() or (left <= 0 and is_busy):
                    break
                self._changed.wait(max(left, 0.01) if is_busy else None)
        time.sleep(BATCH_S)
        return True

    def _look(self) -> None:
        """Submit workers that are missing, and link those that run."""
        problem = self._fleet.refresh() or self._why_hopeless()
        if problem:
            self._break(problem)
            return
        with self._changed:
            self._links = {element: link for element, link in self._links.items() if link.is_alive()}
            missing = self._missing()
        if missing:
            self._fleet.submit(missing)
        if self._fleet.alive <= len(self._links):
            return
        for job in self._fleet.running():
            if job.spec.name not in self._links:
                link = Link(self._client, job.spec.name, self._fleet.python, self)
                with self._changed:
                    self._links[job.spec.name] = link
                link.start()

    def _missing(self) -> int:
        """Return how many workers to submit."""
        if not self._waiting:
            return 0
        return max(0, min(self._max_workers, len(self._waiting) + self._running) - self._fleet.alive)

    def _drop_cancelled(self) -> None:
        for item in [item for item in self._waiting if item.future.cancelled()]:
            self._waiting.remove(item)
            item.future.set_running_or_notify_cancel()

    def _why_hopeless(self) -> str:
        """Return why no worker is submitted any more; empty: there is hope."""
        failed = self._fleet.failed + len(self._unusable)
        allowed = FAILURES * self._max_workers if self._has_greeted else FAILED_STARTS
        if failed < allowed and (self._has_greeted or not failed or self._fleet.alive):
            return ""
        why = self._fleet.why_failed() if self._fleet.failed else self._unusable[-1]
        return f"its workers fail ({failed} so far): {why}"

    def _break(self, why: str, cause: Exception | None = None) -> None:
        """Fail everything that is open: no worker can come."""
        with self._changed:
            if self._broken is None:
                self._broken = BrokenPool(f"no call can run: {why}")
                self._broken.__cause__ = cause
            waiting = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        for item in waiting:
            if item.lost or item.future.set_running_or_notify_cancel():
                item.future.set_exception(self._broken)

    def _end(self) -> None:
        """End the workers, and what is left of their jobs."""
        for item in self._waiting:  # given up: whoever waits for them has gone
            item.future.cancel()
        at_once = self._broken is not None or self._is_given_up
        for link in list(self._links.values()):
            if not at_once:
                link.join(timeout=END_S)
            link.stop()
            link.join()
        with suppress(GoSchedError):  # no master answers: workers without a client end by themselves
            self._fleet.end(at_once=at_once)
        if self._own_client:
            self._client.close()
        atexit.unregister(self._at_exit)

    def _at_exit(self) -> None:
        """End the workers of a pool that nobody has shut down: their calls have lost whoever waits for them."""
        with self._changed:
            self._is_given_up = self._is_shut = True
            self._changed.notify_all()
        self._supervisor.join(timeout=10.0)


def _on_chunk(function: Callable[..., T]) -> Callable[[list[tuple[Any, ...]]], list[T]]:
    """Return what calls a function for each item of a chunk. It is nested so that it is pickled by its code: tasks have
    no gosched."""

    def call(chunk: list[tuple[Any, ...]]) -> list[T]:
        return [function(*args) for args in chunk]

    return call


def _chunks(items: Iterable[tuple[Any, ...]], size: int) -> Iterator[list[tuple[Any, ...]]]:
    iterator = iter(items)
    while chunk := list(islice(iterator, size)):
        yield chunk
