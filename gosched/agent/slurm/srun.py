"""srun inside of a batch job: it asks the head for a step, and prints what the ranks write.

python -m gosched.agent.slurm.srun OPTIONS COMMAND...

It ends with the highest exit code of the ranks, as Slurm's does.
"""

from __future__ import annotations

import asyncio
import base64
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

from gosched.agent.mpi.channel import Channel, Message, NotTrusted, connect
from gosched.agent.slurm.mpi import implementation_of, run_mpiexec
from gosched.agent.slurm.step_input import Source
from gosched.config.errors import ConfigError
from gosched.integrations.slurm.command_line import Given, read_words
from gosched.integrations.slurm.hostlist import expanded
from gosched.integrations.slurm.options import SRUN
from gosched.integrations.slurm.steps import StepRequest
from gosched.integrations.slurm.values import node_count, number
from gosched.integrations.slurm.variables import file_name, rank_variables

_PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)


def main(words: Sequence[str]) -> int:
    given = Given()
    try:
        command = read_words(SRUN, words, given)
        if not command:
            raise ConfigError("nothing to run: give a command behind the options")
        if "GOSCHED_PORT" not in os.environ or "SLURM_JOB_ID" not in os.environ:
            raise ConfigError("it starts steps inside of a job that sbatch has submitted, and this is none")
        request, env = request_of(given), _environment(given)
        mpi = implementation_of(given, command)
        if mpi and given.get("input") not in ("", "none"):
            raise given.problem("input", "the program of an MPI has no input: let it read the file")
        source = None if mpi else Source.of(given)
    except ConfigError as error:
        return _say(str(error))
    if "quiet" not in given:
        for warning in given.warnings:
            _say(f"warning: {warning}")
    work = run_mpiexec(mpi, request, command, env) if mpi else Srun(given, request, source).run(command, env)
    try:
        return asyncio.run(work)
    except ConfigError as error:
        return _say(str(error))
    except (OSError, TimeoutError, NotTrusted) as error:
        return _say(f"cannot reach the job's first task: {error or type(error).__name__}")


def request_of(given: Given) -> StepRequest:
    """Return what the options ask for, with the job's numbers where they say nothing. Raises ConfigError."""
    env = os.environ
    says_nodes = "nodes" in given or "nodelist" in given or "relative" in given
    ranks = given.read("ntasks", number) if "ntasks" in given else 0
    per_node = given.read("ntasks-per-node", number) if "ntasks-per-node" in given else 0
    if not ranks and not per_node and not says_nodes:
        ranks = int(env.get("SLURM_NTASKS", "0"))
    cpus = given.read("cpus-per-task", number) if "cpus-per-task" in given else int(env.get("SLURM_CPUS_PER_TASK", "0"))
    nodes = given.read("nodes", node_count)[0] if "nodes" in given else 0
    relative = given.get("relative")
    if relative and not relative.isdigit():
        raise given.problem("relative", f"expected a number, got {relative!r}")
    return StepRequest(
        ranks=ranks,
        nodes=min(nodes, ranks) if ranks else nodes,
        per_node=per_node,
        cpus=cpus,
        names=tuple(given.read("nodelist", expanded)) if "nodelist" in given else (),
        first=int(relative or 0),
        overlaps="overlap" in given,
    )


class Srun:
    """One step, as its srun sees it."""

    def __init__(self, given: Given, request: StepRequest, source: Source | None = None) -> None:
        self._given = given
        self._request = request
        self._source = source
        self._nodes: tuple[tuple[str, ...], tuple[int, ...]] = ((), ())
        self._step = 0
        self._places: list[int] = []
        self._codes: dict[int, int] = {}
        self._files: dict[str, IO[bytes]] = {}
        self._opened = ExitStack()
        #: The end of a line that is not complete, by rank and stream; with --label alone.
        self._begun: dict[tuple[int, int], bytes] = {}

    async def run(self, command: Sequence[str], env: Mapping[str, str]) -> int:
        """Run the step, and return its exit code. Raises ConfigError, OSError, TimeoutError, NotTrusted."""
        channel = await connect("127.0.0.1", int(os.environ["GOSCHED_PORT"]), os.environ["GOSCHED_SECRET"])
        channel.send(
            hello="step",
            request=self._request.message(),
            command=list(command),
            # What is of gosched each task has itself: messages are not hidden, and the job's secret seals them.
            env={name: value for name, value in env.items() if not name.startswith("GOSCHED_")},
            cwd=os.path.abspath(self._given.get("chdir") or os.getcwd()),
            input=self._source and self._source.rank,
        )
        feeding = None
        loop = asyncio.get_running_loop()
        for each in _PASSED_ON:
            loop.add_signal_handler(each, self._pass_on, channel, each)
        async for message in channel.messages():
            if "problem" in message:
                return _say(message["problem"])
            if "waits" in message:
                continue
            if "step" in message:
                self._begin(message)
                if self._source and message.get("takes_input"):  # a head of an earlier release does not
                    feeding = asyncio.create_task(self._source.feed(channel))
            elif message["did"] == "took":
                assert self._source is not None
                self._source.on_taken()
            elif message["did"] == "output":
                self._write(message["rank"], message["stream"], base64.b64decode(message["data"]))
            else:
                self._on_exit(channel, message["rank"], message["code"])
            if self._places and len(self._codes) == len(self._places):
                break
        else:
            return _say("the job's first task is gone")
        if feeding is not None:
            feeding.cancel()
        self._finish()
        await channel.close()
        return max(self._codes.values())

    def _pass_on(self, channel: Channel, number: int) -> None:
        if not self._places:  # it has not begun
            raise SystemExit(128 + number)
        channel.send(signal=number)

    def _begin(self, message: Message) -> None:
        self._step, self._places = message["step"], message["ranks"]
        self._nodes = (tuple(message["nodes"]), tuple(message["per_node"]))
        if self._source and self._source.rank >= len(self._places):
            raise self._given.problem("input", f"the ranks of the step are 0 to {len(self._places) - 1}")

    def _on_exit(self, channel: Channel, rank: int, code: int) -> None:
        self._codes[rank] = code
        if not code:
            return
        if "quiet" not in self._given:
            how = f"exit code {code}" if code < 128 else f"signal {code - 128}"
            _say(f"{self._nodes[0][self._places[rank]]}: task {rank} ended with {how}")
        if "kill-on-bad-exit" in self._given and self._given.get("kill-on-bad-exit") != "0":
            channel.send(signal=int(signal.SIGKILL))

    # What the ranks write

    def _write(self, rank: int, stream: int, data: bytes) -> None:
        if "label" in self._given:
            *lines, rest = (self._begun.pop((rank, stream), b"") + data).split(b"\n")
            data = b"".join(b"%d: %b\n" % (rank, line) for line in lines)
            if rest:
                self._begun[rank, stream] = rest
        file = self._file(rank, stream)
        file.write(data)
        file.flush()

    def _file(self, rank: int, stream: int) -> IO[bytes]:
        """Return where a rank's stream goes; files are opened when something is written to them."""
        pattern = self._given.get("output" if stream == 1 else "error") or self._given.get("output")
        if pattern in ("", "all"):
            return sys.stdout.buffer if stream == 1 else sys.stderr.buffer
        if pattern == "none":
            pattern = os.devnull
        node = self._places[rank]
        own = {**os.environ, **rank_variables(self._step, rank, 0, node, *self._nodes)}
        path = file_name(pattern, own, node=node, rank=rank)
        if path not in self._files:
            file = Path(path).open("wb")  # noqa: SIM115 (it is open until the step ends)
            self._files[path] = self._opened.enter_context(file)
        return self._files[path]

    def _finish(self) -> None:
        for (rank, stream), rest in self._begun.items():
            self._file(rank, stream).write(b"%d: %b\n" % (rank, rest))
        self._opened.close()
        for file in (sys.stdout.buffer, sys.stderr.buffer):
            file.flush()


def _environment(given: Given) -> dict[str, str]:
    """Return the environment of the ranks. Raises ConfigError."""
    words = (given.get("export") or "ALL").split(",")
    env = dict(os.environ)
    if "ALL" not in words:
        env = {name: value for name, value in env.items() if name.startswith("SLURM_") or name in ("PATH", "HOME")}
    for word in words:
        name, equals, value = word.partition("=")
        if equals:
            env[name] = value
        elif name not in ("ALL", "NONE") and name in os.environ:
            env[name] = os.environ[name]
    return env


def _say(text: str) -> int:
    print(f"srun: {text}", file=sys.stderr, flush=True)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
