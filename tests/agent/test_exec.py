"""Commands beside a task, with a helper process and a terminal of their own; a `sleep` stands for the task."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncIterator, Iterator

import grpc
import pytest

from gosched.agent.exec.streams import ExecRefused, Execs, ExecTarget
from gosched.wire.v1 import scheduler_pb2
from tests.agent.conftest import lives

LIMIT_S = 30.0
END = scheduler_pb2.ExecRequest(stdin_end=True)


@pytest.fixture
def task(tmp_path) -> Iterator[ExecTarget]:
    process = subprocess.Popen(["sleep", "60"])
    record = {"command": ["sleep", "60"], "env": {"PATH": os.environ["PATH"], "FROM": "task"}, "cwd": str(tmp_path)}
    launch = {**record, "boot_id": "", "log_max_bytes": 1, "log_files": 1, "umask": 0o027}
    (tmp_path / "launch.json").write_text(json.dumps(launch))
    yield ExecTarget(path=tmp_path, pid=process.pid)
    process.kill()
    process.wait()


class Session:
    """One stream: what is put into it, and what came out."""

    def __init__(self, target: ExecTarget | None, *command: str, execs: Execs | None = None, **more: object) -> None:
        self._requests: asyncio.Queue[scheduler_pb2.ExecRequest] = asyncio.Queue()
        self.send(start=scheduler_pb2.ExecStart(allocation_id="j/main/0.1", command=command, **more))
        self.execs = execs or Execs()
        self.responses = self.execs.run(self._sent(), lambda _: target)
        self.stdout = self.stderr = b""
        self.code: int | None = None

    def send(self, **part: object) -> None:
        self._requests.put_nowait(scheduler_pb2.ExecRequest(**part))

    async def until(self, text: bytes) -> None:
        async with asyncio.timeout(LIMIT_S):
            while text not in self.stdout:
                await self.take()

    async def end(self) -> int:
        async with asyncio.timeout(LIMIT_S):
            while self.code is None:
                await self.take()
        await self.responses.aclose()
        await self.execs.close()
        return self.code

    async def take(self) -> None:
        response = await anext(self.responses)
        self.stdout += response.stdout
        self.stderr += response.stderr
        if response.HasField("exit_code"):
            self.code = response.exit_code

    async def _sent(self) -> AsyncIterator[scheduler_pb2.ExecRequest]:
        while True:
            yield await self._requests.get()


def test_a_command_has_the_environment_directory_and_umask_of_the_task(task) -> None:
    async def story() -> None:
        session = Session(
            task, "sh", "-c", "echo $FROM $MORE; pwd; umask; cat; echo bad >&2; exit 3", env={"MORE": "x"}
        )
        session.send(stdin=b"in")
        session.send(stdin_end=True)
        assert await session.end() == 3
        assert session.stdout.decode() == f"task x\n{task.path}\n0027\nin"
        assert session.stderr == b"bad\n"

    asyncio.run(story())


def test_a_terminal_has_a_size_that_can_change_and_job_control(task) -> None:
    async def story() -> None:
        size = scheduler_pb2.TerminalSize(rows=24, columns=80)
        session = Session(task, "sh", terminal=True, size=size)
        session.send(stdin=b"stty -echo; stty size; tty; trap 'stty size' WINCH; echo ready\n")
        await session.until(b"\nready")
        session.send(resize=scheduler_pb2.TerminalSize(rows=50, columns=132))
        session.send(stdin=b"echo $-; exit 4\n")
        assert await session.end() == 4
        assert b"24 80\r\n/dev/pts/" in session.stdout
        assert b"50 132\r\n" in session.stdout

    asyncio.run(story())


@pytest.mark.parametrize("terminal", [False, True])
def test_nothing_of_a_flood_is_lost_at_its_end(task, terminal) -> None:
    async def story() -> None:
        session = Session(task, "seq", "200000", terminal=terminal)
        assert await session.end() == 0
        lines = session.stdout.split()
        assert len(lines) == 200_000
        assert lines[-1] == b"200000"

    asyncio.run(story())


def test_a_signal_reaches_the_command_and_shows_in_its_code(task) -> None:
    async def story() -> None:
        session = Session(task, "cat")
        session.send(stdin=b"up")
        await session.until(b"up")
        session.send(signal=2)
        assert await session.end() == 130

    asyncio.run(story())


@pytest.mark.parametrize(
    ("command", "code", "why"),
    [
        (["no-such-command"], 127, "no such command"),
        (["/etc/passwd"], 126, "/etc/passwd: Permission denied"),
        (["echo", "a\0b"], 125, "null"),
    ],
)
def test_why_a_command_did_not_start_is_said(task, command, code, why) -> None:
    async def story() -> None:
        session = Session(task, *command)
        assert await session.end() == code
        assert why in session.stderr.decode()

    asyncio.run(story())


def test_nothing_of_a_command_is_left_when_its_caller_goes(task) -> None:
    async def story() -> None:
        session = Session(task, "sh", "-c", "setsid sh -c 'echo $$; sleep 60' & echo $$; wait", terminal=True)
        while session.stdout.count(b"\n") < 2:
            await session.take()
        pids = [int(line) for line in session.stdout.split()]
        assert all(lives(pid) for pid in pids)
        await session.responses.aclose()
        await session.execs.close()
        assert not any(lives(pid) for pid in pids)

    asyncio.run(story())


def test_a_command_ends_with_its_task(task) -> None:
    async def story() -> None:
        session = Session(task, "cat")
        session.send(stdin=b"up")
        await session.until(b"up")
        os.kill(task.pid, 9)
        assert await session.end() == 129
        assert session.stderr == b"the task has ended\n"

    asyncio.run(story())


def test_input_that_nobody_reads_is_not_piled_up(task) -> None:
    async def story() -> None:
        session = Session(task, "sh", "-c", "echo up; sleep 60")
        await session.until(b"up")
        for _ in range(100):
            session.send(stdin=bytes(32 * 1024))
        taking = asyncio.ensure_future(session.take())
        await asyncio.sleep(0.1)
        assert session._requests.qsize() > 90
        taking.cancel()
        await asyncio.gather(taking, return_exceptions=True)
        await session.execs.close()

    asyncio.run(story())


def test_a_command_is_refused_with_a_reason(task) -> None:
    async def refusal(session: Session) -> ExecRefused:
        with pytest.raises(ExecRefused) as refused:
            await session.end()
        return refused.value

    async def story() -> None:
        absent = await refusal(Session(None, "true"))
        assert absent.code is grpc.StatusCode.NOT_FOUND
        waiting = ExecTarget(path=task.path, pid=0, problem="it is STARTING")
        assert "beside j/main/0.1: it is STARTING" in str(await refusal(Session(waiting, "true")))
        assert "names the task and the command" in str(await refusal(Session(task)))
        execs = Execs(limit=1)
        first = Session(task, "cat", execs=execs)
        first.send(stdin=b"up")
        await first.until(b"up")
        full = await refusal(Session(task, "true", execs=execs))
        assert full.code is grpc.StatusCode.RESOURCE_EXHAUSTED
        first.send(stdin_end=True)
        assert await first.end() == 0

    asyncio.run(story())


def test_the_words_of_a_container_runtime_stand_before_the_command(task, tmp_path) -> None:
    record = json.loads((tmp_path / "launch.json").read_text())
    (tmp_path / "launch.json").write_text(json.dumps({**record, "exec": ["echo", "exec", "box"]}))

    async def story() -> None:
        session = Session(task, "ls", "-l", env={"A": "b c"}, terminal=True)
        assert await session.end() == 0
        assert session.stdout == b"exec --tty --env A=b c box ls -l\r\n"

    asyncio.run(story())
