"""One task of an MPI job, in place of the job's command.

python -m gosched.agent.mpi.task RANKS IMPLEMENTATION SCRATCH COMMAND...
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence

from gosched.agent.mpi.channel import listen
from gosched.agent.mpi.head import Head
from gosched.agent.mpi.job import Job, failed
from gosched.agent.mpi.member import Member


def main(words: Sequence[str]) -> int:
    job = Job.of(*words)
    try:
        return asyncio.run(_run(job))
    except OSError as error:
        return failed(f"cannot start the ranks: {error}")


async def _run(job: Job) -> int:
    member = Member(job)
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, member.stop)
    if job.index:
        return await member.run()
    head = Head(job, member.stopped)
    server = await listen(head.handle, job.port)
    async with asyncio.TaskGroup() as group:
        work = group.create_task(head.run())
        code = await member.run()
        work.cancel()
    server.close()  # and no wait: members may stay connected until they are stopped
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
