"""`goschedctl exec`: what a shell sees of it. Real terminals and real tasks are in tests/integration."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from dataclasses import replace

import grpc
import pytest

from gosched.core.records.task import TaskState
from gosched.core.resources import Resources
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.policies import GangPolicy
from gosched.core.spec.task_group import TaskGroup
from gosched.wire.v1 import scheduler_pb2
from tests.client.fake_cluster import FakeMaster

LIMIT_S = 30


class Master(FakeMaster):
    """A command that says `replies` and then its input, and ends with 5 at the end of it, or by a signal; a command
    `deaf` minds nothing. `fed` is set once it has had input, `hit` by a signal, `over` when its stream has ended."""

    def __init__(self) -> None:
        self.start = scheduler_pb2.ExecStart()
        self.replies = [scheduler_pb2.ExecResponse(stdout=b"out"), scheduler_pb2.ExecResponse(stderr=b"err")]
        self.refusal: tuple[grpc.StatusCode, str] | None = None
        self.fed, self.hit, self.over = threading.Event(), threading.Event(), threading.Event()
        super().__init__()

    def ExecTask(self, requests, context):
        context.add_callback(self.over.set)
        self.start = next(requests).start
        if self.refusal is not None:
            context.abort(*self.refusal)
        yield from self.replies
        for request in requests:
            if request.HasField("stdin"):
                self.fed.set()
                yield scheduler_pb2.ExecResponse(stdout=request.stdin)
                continue
            self.hit.set()
            if "deaf" not in self.start.command:
                yield scheduler_pb2.ExecResponse(exit_code=5 if request.stdin_end else 128 + request.signal)
                return


@pytest.fixture
def master() -> Iterator[Master]:
    fake = Master()
    group = TaskGroup(name="worker", count=3, resources=Resources(cpu_millis=1), command=("true",))
    fake.put("j-1", JobSpec(name="train", queue="default", gang=GangPolicy(min_tasks=3), groups=(group,)))
    fake.tasks["j-1"][1:] = [replace(task, state=TaskState.RUNNING) for task in fake.tasks["j-1"][1:]]
    yield fake
    fake.stop()


@contextlib.contextmanager
def stdin(text: bytes, *, ends: bool = True) -> Iterator[None]:
    found = os.dup(0)
    read_end, write_end = os.pipe()
    os.dup2(read_end, 0)
    os.write(write_end, text)
    if ends:
        os.close(write_end)
    try:
        yield
    finally:
        os.dup2(found, 0)
        for fd in (found, read_end, *([] if ends else [write_end])):
            os.close(fd)


def test_output_keeps_its_streams_and_the_exit_code_is_that_of_the_command(master, ctl) -> None:
    result = ctl("exec", "train", "--task", "worker/2", "--", "ls", "-l")
    assert (result.code, result.out, result.err) == (5, "out", "err")
    assert (master.start.job, master.start.task, list(master.start.command)) == ("j-1", "worker/2", ["ls", "-l"])
    assert not master.start.terminal


def test_the_first_running_task_is_taken_and_named(master, ctl) -> None:
    result = ctl("exec", "train", "--", "ls")
    assert master.start.task == "worker/1"
    assert "in worker/1, the first of 2 running tasks" in result.err


def test_stdin_is_passed_to_the_command_on_request(master, ctl) -> None:
    with stdin(b"in"):
        assert ctl("exec", "train", "-i", "--", "cat").out == "outin"
    with stdin(b"in"):
        assert ctl("exec", "train", "--", "cat").out == "out"


def test_the_first_interrupt_goes_to_the_command_and_the_second_ends_goschedctl(master, ctl) -> None:
    def interrupt(times: int) -> None:
        for _ in range(times if master.fed.wait(LIMIT_S) else 0):
            os.kill(os.getpid(), signal.SIGINT)
            master.hit.wait(LIMIT_S)  # two that come together are one

    for words, times in (["cat"], 1), (["deaf"], 2):
        for event in (master.fed, master.hit, master.over):
            event.clear()
        thread = threading.Thread(target=interrupt, args=(times,))
        thread.start()
        with stdin(b"x", ends=False):
            assert ctl("exec", "train", "-i", "--", *words).code == 130
        thread.join()
        assert master.over.wait(LIMIT_S)


def test_an_impossible_exec_is_one_line_and_an_exit_code(master, ctl) -> None:
    assert ctl("exec", "train").code == 2
    assert "leave out -t" in ctl("exec", "train", "-it", "--", "sh").err
    assert ctl("exec", "nope", "--", "ls").code == 1
    master.refusal = (grpc.StatusCode.FAILED_PRECONDITION, "no task of job train runs: the job is PENDING")
    result = ctl("exec", "train", "--", "ls")
    assert (result.code, result.err.splitlines()[-1]) == (1, f"goschedctl: {master.refusal[1]}")
    master.refusal = (grpc.StatusCode.UNAVAILABLE, "there is no leader")
    result = ctl("exec", "train", "--", "ls")
    assert (result.code, "broke off" in result.err) == (5, True)
