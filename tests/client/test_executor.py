"""GoSchedExecutor on workers of this machine: values, exceptions, cancels, lost workers and broken connections."""

from __future__ import annotations

import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, wait
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from gosched import GoSchedExecutor
from gosched.client import GoSchedError, Misused
from gosched.client.executor import link, pickling, pool
from gosched.client.executor.pool import BrokenPool, WorkerLost
from tests.client.fake_workers import FakeWorkers, LocalExec

PATIENCE_S = 60
MakePool = Callable[..., GoSchedExecutor]


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeWorkers]:
    monkeypatch.setattr(link, "Exec", LocalExec)
    monkeypatch.setattr(link, "AGAIN_S", 0.02)
    monkeypatch.setattr(pool, "LOOK_S", 0.05)
    workers = FakeWorkers()
    yield workers
    workers.close()


@pytest.fixture
def make_pool(client: FakeWorkers) -> Iterator[MakePool]:
    made: list[GoSchedExecutor] = []

    def make(**how: Any) -> GoSchedExecutor:
        made.append(GoSchedExecutor(client, **{"python": sys.executable, "max_workers": 2, **how}))
        return made[-1]

    yield make
    for one in made:
        one._at_exit()  # also where a test has failed, and left a call that waits


def test_map_returns_the_results_in_order_by_as_many_workers_as_are_allowed(make_pool, client):
    offset = 1000
    pool = make_pool(max_workers=2)
    assert list(pool.map(lambda a, b: a * b + offset, range(30), range(30))) == [n * n + offset for n in range(30)]
    assert list(pool.map(lambda a: a + 1, range(95), chunksize=10)) == list(range(1, 96))
    assert len(client.elements) == 2
    assert "2 workers, 0 calls run, 0 wait" in repr(pool)


def test_one_call_takes_one_worker(make_pool, client):
    assert make_pool(max_workers=8).submit(os.getpid).result(PATIENCE_S) != os.getpid()
    assert len(client.elements) == 1


def test_what_a_call_raises_is_raised_with_the_workers_traceback(make_pool):
    def fails(message: str) -> None:
        raise KeyError(message)

    with pytest.raises(KeyError, match="no such thing") as caught:
        make_pool().submit(fails, "no such thing").result(PATIENCE_S)
    assert "in fails" in str(caught.value.__cause__)


def test_an_exception_or_a_value_that_cannot_be_pickled_is_said(make_pool):
    class Locked(Exception):
        def __reduce__(self) -> Any:
            raise TypeError("locked")

    def fails() -> None:
        raise Locked("closed for good")

    pool = make_pool()
    with pytest.raises(GoSchedError, match="closed for good"):
        pool.submit(fails).result(PATIENCE_S)
    with pytest.raises(TypeError, match="pickle"):
        pool.submit(threading.Lock).result(PATIENCE_S)
    with pytest.raises(SystemExit):
        pool.submit(lambda: sys.exit(3)).result(PATIENCE_S)
    assert pool.submit(lambda: "it works on").result(PATIENCE_S) == "it works on"


def test_large_calls_and_results_go_through(make_pool):
    data = os.urandom(5_000_000)
    assert make_pool().submit(lambda given: given[::-1], data).result(PATIENCE_S) == data[::-1]


def test_a_future_is_cancelled_before_it_begins_and_not_after(make_pool, tmp_path):
    pool = make_pool(max_workers=1)
    gate = str(tmp_path / "gate")

    def until_open() -> str:
        while not os.path.exists(gate):
            time.sleep(0.01)
        return "done"

    first = pool.submit(until_open)
    second = pool.submit(until_open)
    _until(first.running, "the first call runs")
    assert second.cancel()
    assert not first.cancel()
    Path(gate).touch()
    assert first.result(PATIENCE_S) == "done"
    with pytest.raises(CancelledError):
        second.result(PATIENCE_S)
    assert wait([second], PATIENCE_S).done == {second}


def test_shutdown_cancels_what_has_not_begun_if_it_is_told_to(make_pool, tmp_path):
    pool = make_pool(max_workers=1)
    gate = str(tmp_path / "gate")

    def until_open() -> None:
        while not os.path.exists(gate):
            time.sleep(0.01)

    futures = [pool.submit(until_open) for _ in range(5)]
    _until(futures[0].running, "the first call runs")
    pool.shutdown(wait=False, cancel_futures=True)
    Path(gate).touch()
    assert futures[0].result(PATIENCE_S) is None
    assert all(future.cancelled() for future in futures[1:])
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(until_open)


def test_a_call_whose_worker_is_killed_is_given_to_another(make_pool, tmp_path):
    pool, once = make_pool(max_workers=1), str(tmp_path / "once")

    def dies_once() -> str:
        if not os.path.exists(once):
            Path(once).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return "the second time"

    assert pool.submit(dies_once).result(PATIENCE_S) == "the second time"


def test_a_call_that_kills_each_worker_ends_with_worker_lost(make_pool):
    def dies() -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    pool = make_pool(max_workers=1, retries=1)
    assert pool.submit(lambda: 1).result(PATIENCE_S) == 1
    with pytest.raises(WorkerLost, match=r"2 workers were lost with the call, at last executor-.*FAILED"):
        pool.submit(dies).result(PATIENCE_S)
    assert pool.submit(lambda: 2).result(PATIENCE_S) == 2


def test_a_call_goes_on_while_its_connection_is_made_anew(make_pool, client, tmp_path):
    pool = make_pool(max_workers=1)
    starts = tmp_path / "starts"

    def slow(file: str) -> str:
        with open(file, "a") as log:
            log.write("start\n")
        while not os.path.exists(f"{file}.end"):
            time.sleep(0.01)
        return "x" * 100_000

    future = pool.submit(slow, str(starts))
    for broken in range(3):
        _until(lambda: starts.exists() and len(client.execs) > broken, "the call runs")  # noqa: B023
        client.execs[broken].cancel()
    _until(lambda: len(client.execs) > 3, "it is connected again")
    Path(f"{starts}.end").touch()
    assert future.result(PATIENCE_S) == "x" * 100_000
    assert starts.read_text() == "start\n"


def test_workers_that_do_not_start_break_the_pool_with_what_they_wrote(make_pool):
    pool = make_pool(python="/nowhere/python")
    with pytest.raises(BrokenPool, match=r"its workers fail(.|\n)*/nowhere/python"):
        pool.submit(int).result(PATIENCE_S)
    with pytest.raises(BrokenPool):
        pool.submit(int)


def test_another_python_is_refused_by_its_version(make_pool, monkeypatch):
    class Newer(tuple):
        major, minor = 3, 99

    monkeypatch.setattr(pool.sys, "version_info", Newer((3, 99)))
    with pytest.raises(BrokenPool, match=r"of the tasks is Python 3\.\d+, and this process is 3\.99"):
        make_pool().submit(int).result(PATIENCE_S)


def test_a_job_that_somebody_cancels_breaks_the_pool(make_pool, client):
    pool = make_pool(max_workers=1)
    future = pool.submit(time.sleep, 1000)
    _until(future.running, "the call runs")
    client.cancel(pool.jobs[0].id)
    with pytest.raises((BrokenPool, WorkerLost), match=r"was cancelled|lost"):
        future.result(PATIENCE_S)
    with pytest.raises(BrokenPool, match="was cancelled"):
        pool.submit(int).result(PATIENCE_S)


def test_a_worker_without_calls_ends_and_another_comes_when_there_are_some(make_pool, client):
    pool = make_pool(idle_s=0.2, max_workers=1)
    first = pool.submit(os.getpid).result(PATIENCE_S)
    _until(lambda: all(e.state.is_final for e in client.elements.values()), "the worker has ended")
    assert pool.submit(os.getpid).result(PATIENCE_S) != first


def test_shutdown_leaves_no_worker(client):
    with GoSchedExecutor(client, python=sys.executable, max_workers=3) as pool:
        futures = [pool.submit(time.sleep, 0.1) for _ in range(3)]
    assert all(future.done() for future in futures)
    assert all(element.state.is_final for element in client.elements.values())
    assert client.cancelled == []


@pytest.mark.parametrize(
    ("how", "says"),
    [
        ({"max_workers": 0}, "max_workers: expected 1 to 256, got 0"),
        ({"max_workers": "8"}, "max_workers: expected a whole number, got '8'"),
        ({"resources": "2"}, "resources: expected a mapping of text to anything or None"),
        ({"job": {"run": "x"}}, "job: run is the executor's own"),
    ],
)
def test_wrong_arguments_are_refused(client, how, says):
    with pytest.raises(Misused) as caught:
        GoSchedExecutor(client, **how)
    assert says in str(caught.value)


def test_wrong_calls_are_refused_where_they_are_made(make_pool):
    pool = make_pool()
    with pytest.raises(Misused, match=r"expected a function, got 5 \(int\)"):
        pool.submit(5)
    with pytest.raises(Misused, match="cannot be pickled"):
        pool.submit(print, threading.Lock())
    with pytest.raises(Misused, match="chunksize"):
        pool.map(print, [1], chunksize=0)


def test_a_wrong_spec_breaks_the_pool_with_its_mistake(make_pool):
    with pytest.raises(BrokenPool, match="did you mean"):
        make_pool(resources={"cpus": 2}).submit(int).result(PATIENCE_S)


def test_a_mistake_of_the_executor_itself_ends_its_futures(make_pool, client, monkeypatch):
    monkeypatch.setattr(client, "submit", lambda job: 1 // 0)
    with pytest.raises(BrokenPool, match="ZeroDivisionError") as caught:
        make_pool().submit(abs, 1).result(timeout=PATIENCE_S)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_a_link_that_is_stopped_while_it_connects_does_not_wait_for_its_worker(client, monkeypatch):
    silent = threading.Event()

    class Connecting:
        def __init__(self, *_: object) -> None:
            stopped.stop()

        def __enter__(self) -> Connecting:
            return self

        def __exit__(self, *_: object) -> None:
            pass

        def __iter__(self) -> Iterator[tuple[str, bytes]]:
            silent.wait(PATIENCE_S)
            return iter(())

        def cancel(self) -> None:
            pass

    monkeypatch.setattr(link, "Exec", Connecting)
    stopped = link.Link(client, "worker.0", sys.executable, Mock(spec=link.Office))
    stopped.start()
    stopped.join(PATIENCE_S / 4)
    assert not stopped.is_alive()
    silent.set()


def test_without_cloudpickle_it_says_what_to_install(client, monkeypatch):
    monkeypatch.setitem(sys.modules, "cloudpickle", None)
    with pytest.raises(Misused, match=r"pip install 'gosched\[executor\]'"):
        GoSchedExecutor(client)


def test_a_worker_needs_no_package_at_all():
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", pickling.worker_source(), "nothing"],
        capture_output=True, text=True, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert "KeyError: 'nothing'" in done.stderr


def test_an_exception_that_cannot_be_made_again_has_its_text():
    bad = pickle.dumps((b"no pickle", "Traceback: it was the disk"))
    assert "it was the disk" in str(pickling.exception_of(bad))


def _until(condition: Callable[[], object], what: str) -> None:
    ends = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < ends, what
        time.sleep(0.01)
