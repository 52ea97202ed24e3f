"""MPI programs under srun: their own mpiexec starts them, with a step of ours in place of ssh.

    python -m gosched.agent.slurm.mpi [-x] NODE WORDS...

As ADR 0068 has it for jobs of MPI. Here a node is a node of the step, whose places srun holds meanwhile, and MPI's
daemon there is a step that overlaps.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from gosched.agent.mpi.channel import Message, connect
from gosched.agent.mpi.implementations import NoMpi, World, command_line, find, linked_with, task_of
from gosched.config.errors import ConfigError
from gosched.integrations.slurm.command_line import Given
from gosched.integrations.slurm.steps import StepRequest

_NODES = "GOSCHED_SRUN_NODES"
#: What a rank is told by the two implementations, under Slurm's names.
_RANK = (
    "/bin/sh",
    "-c",
    "export SLURM_PROCID=${OMPI_COMM_WORLD_RANK:-$PMI_RANK} SLURM_NTASKS=${OMPI_COMM_WORLD_SIZE:-$PMI_SIZE} "
    "SLURM_LOCALID=${OMPI_COMM_WORLD_LOCAL_RANK:-$MPI_LOCALRANKID}\n"
    '[ "$PMI_FD" ] || exec "$@"\n'
    f'"$@" || {{ code=$?; {sys.executable} -ISc "$0" $code; exit $code; }}',
    # MPICH's mpiexec ends the ranks of one node alone, unless it is told by its own protocol.
    'import os, sys; os.write(int(os.environ["PMI_FD"]), f"cmd=abort exitcode={sys.argv[1]}\\n".encode())',
)
#: Both would ask Slurm otherwise, whose variables are there.
_SETTINGS = {"OMPI_MCA_plm": "rsh", "OMPI_MCA_ras": "^slurm", "HYDRA_RMK": "user"}


def implementation_of(given: Given, command: Sequence[str]) -> str:
    """Return whose mpiexec starts the command; empty: it is no MPI program. Raises ConfigError."""
    asked = given.get("mpi")
    if asked in ("openmpi", "mpich"):
        return asked
    if asked not in ("", "none"):
        raise given.problem("mpi", f"{asked}: there is no server of PMI here; say openmpi, mpich or none")
    return "" if asked else linked_with(command)


async def run_mpiexec(kind: str, request: StepRequest, command: Sequence[str], env: Mapping[str, str]) -> int:
    """Run the program by mpiexec, and return its exit code. Raises ConfigError, OSError, TimeoutError, NotTrusted."""
    try:
        kind, mpiexec = await asyncio.to_thread(find, command, kind)
    except NoMpi as error:
        raise ConfigError(f"cannot start the ranks: {error}") from error
    channel = await connect("127.0.0.1", int(os.environ["GOSCHED_PORT"]), os.environ["GOSCHED_SECRET"])
    channel.send(hello="step", request=request.message(), command=[], env={}, cwd="")
    async for message in channel.messages():
        if "problem" in message:
            raise ConfigError(message["problem"])
        if "step" in message:
            break
    else:
        raise ConnectionResetError("it is gone")
    with tempfile.TemporaryDirectory(prefix=".gosched-srun-") as folder:
        words = _command_line(kind, mpiexec, message, command, Path(folder))
        own = {**env, **_SETTINGS, _NODES: json.dumps(message["nodes"])}
        process = await asyncio.create_subprocess_exec(*words, env=own, stdin=asyncio.subprocess.DEVNULL)
        code = await process.wait()
    await channel.close()
    return 128 - code if code < 0 else code


def _command_line(kind: str, mpiexec: str, step: Message, command: Sequence[str], folder: Path) -> list[str]:
    agent = folder / "agent"
    stand_in = shlex.join([sys.executable, "-I", "-m", "gosched.agent.slurm.mpi"])
    agent.write_text(f'#!/bin/sh\nexec {stand_in} "$@"\n')
    agent.chmod(0o700)
    world = World(
        ranks=tuple(step["per_node"]),
        hosts=tuple(step["hosts"]),
        nodes_file=str(folder / "nodes"),
        launch_agent=str(agent),
        rank=(*_RANK, *command),
    )
    return command_line(kind, mpiexec, world)


def main(words: Sequence[str]) -> int:
    """Start MPI's daemon on a node, as ssh would, and stay until it has ended."""
    from gosched.agent.slurm.srun import main as srun

    node, *line = words[1:] if words[0] == "-x" else words
    name = json.loads(os.environ[_NODES])[task_of(node)]
    return srun(["--overlap", "--quiet", "--mpi=none", "-N1", "-n1", "-w", name, "/bin/sh", "-c", " ".join(line)])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
