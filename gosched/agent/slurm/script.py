"""The batch script itself: its files, its environment, its signals."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from gosched.agent.mpi.job import failed
from gosched.integrations.slurm.batch import ALLOCATION, DIRECTORY, Batch
from gosched.integrations.slurm.variables import Node, file_name, script_variables

#: Commands that the script finds in its PATH, whatever is installed on the node.
COMMANDS = ("sbatch", "squeue", "scancel", "scontrol", "sinfo", "sacct")
_CANNOT_RUN = {FileNotFoundError: 127, PermissionError: 126}


class BatchScript:
    """A script with its arguments, in the directory of the task."""

    def __init__(self, batch: Batch, text: str, args: tuple[str, ...], scratch: Path) -> None:
        self.batch = batch
        self._text = text
        self._args = args
        self._scratch = scratch
        self._process: asyncio.subprocess.Process | None = None

    async def run(self, nodes: Sequence[Node]) -> int:
        """Run the script, and return its exit code. Raises OSError for files that cannot be written."""
        env = self._environment(nodes)
        path = self._scratch / "slurm_script"
        path.write_text(self._text)
        path.chmod(0o700)
        with contextlib.ExitStack() as files:
            out, err = self._outputs(files, env)
            try:
                self._process = await asyncio.create_subprocess_exec(
                    str(path), *self._args,
                    env=env, cwd=self._directory(), stdin=asyncio.subprocess.DEVNULL, stdout=out, stderr=err,
                    start_new_session=True,
                )  # fmt: skip
            except OSError as error:
                first = self._text.partition("\n")[0]
                failed(f"cannot run the script by {first!r}: {error.strerror or error}")
                return _CANNOT_RUN.get(type(error), 1)
            code = await self._process.wait()
        self.signal(signal.SIGKILL)  # what it left running
        return 128 - code if code < 0 else code

    def signal(self, number: int) -> None:
        """Send a signal to the script and what it started."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, number)

    def _environment(self, nodes: Sequence[Node]) -> dict[str, str]:
        own = dict(os.environ)
        found = own | script_variables(self.batch, nodes, own)
        found["ENVIRONMENT"] = "BATCH"
        found["PATH"] = f"{self._commands()}:{own.get('PATH', os.defpath)}"
        return found

    def _commands(self) -> Path:
        """Write the commands that the script finds first, and return their directory."""
        directory = self._scratch / DIRECTORY
        directory.mkdir(mode=0o700, exist_ok=True)
        programs = {name: f"gosched.cli.main {name} --" for name in COMMANDS}
        programs["srun"] = "gosched.agent.slurm.srun"
        programs[ALLOCATION] = "gosched.agent.slurm.allocation"
        for name, words in programs.items():
            file = directory / name
            file.write_text(f'#!/bin/sh\nexec {sys.executable} -I -m {words} "$@"\n')
            file.chmod(0o700)
        return directory

    def _directory(self) -> str:
        wanted = self.batch.chdir
        if os.path.isdir(wanted):
            return wanted
        failed(f"{wanted} is not on this node: the script starts in {self._scratch}")
        return str(self._scratch)

    def _outputs(self, files: contextlib.ExitStack, env: Mapping[str, str]) -> tuple[IO[bytes] | None, IO[bytes] | int]:
        """Open the files of --output and --error. Where there is none, or the directory of the job is not on the node
        and no path is named, what the script writes is the task's own output."""
        batch = self.batch
        if not batch.output or (not os.path.isdir(batch.chdir) and not os.path.isabs(batch.output)):
            return None, asyncio.subprocess.STDOUT if not batch.error else self._open(files, batch.error, env)
        out = self._open(files, batch.output, env)
        return out, self._open(files, batch.error, env) if batch.error else asyncio.subprocess.STDOUT

    def _open(self, files: contextlib.ExitStack, pattern: str, env: Mapping[str, str]) -> IO[bytes]:
        path = os.path.join(self.batch.chdir, file_name(pattern, env))
        print(f"gosched: the script writes to {path}", flush=True)
        return files.enter_context(open(path, "ab" if self.batch.append else "wb"))
