"""The programs of an MPI job, with an mpiexec of our own that launches as the real ones do."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from gosched.agent.mpi.channel import Channel, NotTrusted, accept, connect
from gosched.agent.mpi.head import Head
from gosched.agent.mpi.job import Job, words
from tests.ports import HeldPort

SECRET = "s3cret"
LIMIT_S = 60.0

# Starts one rank in each node of the file, in a process group of its own, through the launch agent; ends with the first
# code that is not 0, as the ranks' daemons say it in files.
MPIEXEC = """#!{python}
import os, subprocess, sys, time
if sys.argv[1:] == ["--version"]:
    sys.exit(print("HYDRA"))
value = dict(zip(sys.argv, sys.argv[1:]))
nodes = [line.split(":")[0] for line in open(value["-f"])]
for rank, node in enumerate(nodes):
    line = f"PMI_RANK={{rank}} PMI_SIZE={{len(nodes)}} setsid " + 'sh -c \\'eval "exec $GOSCHED_MPI_RANK"\\''
    line += f"; echo $? > {folder}/ended-{{rank}}.new; mv {folder}/ended-{{rank}}.new {folder}/ended-{{rank}}"
    subprocess.run([value["-launcher-exec"], "-x", node, line], check=True)
left = set(range(len(nodes)))
while left:
    for rank in [r for r in left if os.path.exists(f"{folder}/ended-{{r}}")]:
        left.remove(rank)
        code = int(open(f"{folder}/ended-{{rank}}").read())
        if code:
            sys.exit(code)
    time.sleep(0.05)
"""


class Tasks:
    """The tasks of a job, each a process; the first one is the head."""

    def __init__(self, folder: Path, *commands: str) -> None:
        mpiexec = folder / "mpiexec"
        mpiexec.write_text(MPIEXEC.format(python=sys.executable, folder=folder))
        mpiexec.chmod(0o755)
        self._folder, self._port = folder, HeldPort()
        self.processes = [self._start(folder, index, command, len(commands)) for index, command in enumerate(commands)]

    def _start(self, folder: Path, index: int, command: str, count: int) -> subprocess.Popen[bytes]:
        env = {
            "PATH": f"{folder}:{os.environ['PATH']}",
            "GOSCHED_TASK_INDEX": str(index),
            "GOSCHED_HOSTS": ",".join(["127.0.0.1"] * count),
            "GOSCHED_PORT": str(self._port.number),
            "GOSCHED_SECRET": SECRET,
        }
        scratch = folder / f"task-{index}"
        scratch.mkdir()
        program = words(1, "mpich", str(scratch), ["/bin/sh", "-c", command])
        with (scratch / "output").open("w") as output:
            return subprocess.Popen(program, env=env, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)

    def output(self, index: int) -> str:
        return (self._folder / f"task-{index}" / "output").read_text()

    def end(self) -> None:
        """End all that is left of it, as an agent does."""
        port = str(self._port.number)
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.environ().get("GOSCHED_PORT") == port:
                    process.kill()
        for process in self.processes:
            process.wait(LIMIT_S)


def test_every_rank_runs_its_tasks_own_command_with_its_tasks_own_output(tmp_path: Path) -> None:
    tasks = Tasks(tmp_path, "echo rank $RANK of $WORLD_SIZE, the first", "echo rank $RANK of $WORLD_SIZE, the second")
    try:
        assert [process.wait(LIMIT_S) for process in tasks.processes] == [0, 0]
        assert [tasks.output(0), tasks.output(1)] == ["rank 0 of 2, the first\n", "rank 1 of 2, the second\n"]
    finally:
        tasks.end()


def test_the_task_whose_rank_failed_ends_with_its_code_and_the_others_wait_to_be_stopped(tmp_path: Path) -> None:
    tasks = Tasks(tmp_path, "sleep 600", "exit 23")
    try:
        head, failed = tasks.processes
        assert failed.wait(LIMIT_S) == 23
        with pytest.raises(subprocess.TimeoutExpired):
            head.wait(0.5)
        os.killpg(head.pid, signal.SIGTERM)  # as gosched stops it
        assert head.wait(LIMIT_S) == 23
    finally:
        tasks.end()


def test_a_stop_reaches_the_ranks_which_may_take_their_time(tmp_path: Path) -> None:
    saves = f"trap 'touch {tmp_path}/saved; exit 0' TERM; touch {tmp_path}/ready; while :; do sleep 0.05; done"
    tasks = Tasks(tmp_path, saves)
    try:
        (head,) = tasks.processes
        asyncio.run(_until(tmp_path / "ready"))
        os.killpg(head.pid, signal.SIGTERM)
        assert head.wait(LIMIT_S) == 0
        assert (tmp_path / "saved").exists()
    finally:
        tasks.end()


def test_a_task_that_is_stopped_while_it_waits_for_the_others_ends(tmp_path: Path) -> None:
    tasks = Tasks(tmp_path, "true", "true")
    try:
        head, other = tasks.processes
        os.killpg(other.pid, signal.SIGKILL)
        asyncio.run(_until_listens(tasks._port.number))
        os.killpg(head.pid, signal.SIGTERM)
        assert head.wait(LIMIT_S) == 143
    finally:
        tasks.end()


def test_a_member_that_comes_after_the_stop_is_told_to_end(tmp_path: Path) -> None:
    job = Job(
        index=0,
        hosts=("127.0.0.1", "127.0.0.1"),
        port=0,
        secret=SECRET,
        ranks=1,
        implementation="",
        scratch=str(tmp_path),
        command=("true",),
    )
    assert asyncio.run(_comes_late(job)) == {"do": "end", "code": 143, "yours": True}


async def _comes_late(job: Job) -> object:
    stopped = asyncio.Event()
    stopped.set()
    head = Head(job, stopped)
    async with await asyncio.start_server(head.handle, "127.0.0.1", 0) as server:
        work = asyncio.create_task(head.run())
        await asyncio.sleep(0.1)  # for the head to tell those who are there
        channel = await connect("127.0.0.1", server.sockets[0].getsockname()[1], job.secret)
        channel.send(hello="task", task=0, ranks=1)
        async with asyncio.timeout(LIMIT_S):
            told = await channel.receive()
        await channel.close()
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)
        return told


async def _until(file: Path) -> None:
    async with asyncio.timeout(LIMIT_S):
        while not file.exists():
            await asyncio.sleep(0.05)


async def _until_listens(port: int) -> None:
    async with asyncio.timeout(LIMIT_S):
        while True:
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            await asyncio.sleep(0.05)


@pytest.mark.parametrize("known", [SECRET, "another"])
def test_nothing_is_believed_of_a_program_that_does_not_know_the_secret(known: str) -> None:
    asyncio.run(_greets(known))


async def _greets(known: str) -> None:
    found: list[object] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        channel = await accept(reader, writer, SECRET)
        try:
            found.append(await channel.receive())
        except NotTrusted:
            found.append("refused")
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        channel = await connect("127.0.0.1", server.sockets[0].getsockname()[1], known)
        channel.send(hello="task")
        assert await channel.receive() is None
        await channel.close()
    assert found == [{"hello": "task"} if known == SECRET else "refused"]


def test_a_message_that_is_repeated_or_changed_on_the_way_is_refused() -> None:
    asyncio.run(_tampers())


async def _tampers() -> None:
    for tamper in (lambda line: line + line, lambda line: line.replace(b"1", b"2")):
        reader = asyncio.StreamReader()
        sent: list[bytes] = []
        sender = Channel(reader, _Collects(sent), b"k" * 32, b"c", b"s")  # type: ignore[arg-type]
        sender.send(task=1)
        reader.feed_data(tamper(sent[0]))
        receiver = Channel(reader, _Collects([]), b"k" * 32, b"s", b"c")  # type: ignore[arg-type]
        with pytest.raises(NotTrusted):
            await _drain(receiver)


async def _drain(channel: Channel) -> None:
    async for _ in channel.messages():
        pass


class _Collects:
    def __init__(self, into: list[bytes]) -> None:
        self.write = into.append
