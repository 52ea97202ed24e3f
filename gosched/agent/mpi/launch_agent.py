"""Stands in for ssh: mpiexec starts it to have MPI's daemon started on another node.

    python -m gosched.agent.mpi.launch_agent [-x] NODE WORDS...

The words are a line for a shell, as ssh takes them. It ends with 0 once the daemon runs in the task of that node.
"""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence

from gosched.agent.mpi.channel import NotTrusted, connect

_LAUNCH_S = 60.0
_FAILED = 255  # as ssh


def main(words: Sequence[str]) -> int:
    node, *line = words[1:] if words[0] == "-x" else words
    try:
        problem = asyncio.run(_launch(node, " ".join(line)))
    except (OSError, TimeoutError, NotTrusted) as error:
        problem = f"cannot reach the head of the job: {error or type(error).__name__}"
    if problem:
        print(f"gosched: MPI's daemon does not run on {node}: {problem}", file=sys.stderr)
    return _FAILED if problem else 0


async def _launch(node: str, line: str) -> str:
    """Return why it cannot be started; empty: it runs."""
    channel = await connect("127.0.0.1", int(os.environ["GOSCHED_PORT"]), os.environ["GOSCHED_SECRET"])
    channel.send(hello="launch", node=node, line=line)
    async with asyncio.timeout(_LAUNCH_S):
        answer = await channel.receive()
    await channel.close()
    return str(answer["problem"]) if answer is not None else "the head is gone"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
