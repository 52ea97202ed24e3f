"""One task of a batch job, in place of the job's command.

python -m gosched.agent.slurm.task RECORD SCRIPT ARGUMENTS...

RECORD and SCRIPT are as `integrations/slurm/batch.py` has them.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from gosched.agent.mpi.channel import listen
from gosched.agent.mpi.job import failed
from gosched.agent.slurm.head import Head
from gosched.agent.slurm.member import Member
from gosched.agent.slurm.script import BatchScript
from gosched.integrations.slurm.batch import read


def main(words: Sequence[str]) -> int:
    try:
        batch = read(words[0])
        return asyncio.run(_run(BatchScript(batch, words[1], tuple(words[2:]), Path.cwd())))
    except (OSError, ValueError, IndexError) as error:
        return failed(f"cannot run the batch job: {error}")


async def _run(script: BatchScript) -> int:
    index = int(os.environ["GOSCHED_TASK_INDEX"])
    member = Member(index)
    loop = asyncio.get_running_loop()
    if index:
        loop.add_signal_handler(signal.SIGTERM, member.stop)
        return await member.run()
    head = Head(script)

    def stop() -> None:
        head.stop()
        member.stop()

    loop.add_signal_handler(signal.SIGTERM, stop)
    server = await listen(head.handle, int(os.environ["GOSCHED_PORT"]))
    own = asyncio.create_task(member.run())
    try:
        return await head.run()
    finally:
        member.kill()  # no word of its own head reaches it any more
        own.cancel()
        server.close()  # and no wait: members may stay connected until they are stopped


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
