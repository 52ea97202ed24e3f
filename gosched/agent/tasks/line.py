"""The line to a task's supervisor: a pipe that says when the task runs, and when its supervisor attends to it no more.

Invariant: the line ends with the supervisor's work for this task, whether it is done or was killed; it is known without
looking at a file, and the supervisor's process may go on with another task.
"""

from __future__ import annotations

import asyncio
import os


class Line:
    """The agent's end of the pipe. `far_end`: for the supervisor, until it is handed over."""

    def __init__(self) -> None:
        """Raises OSError."""
        self._end, self.far_end = os.pipe()
        os.set_blocking(self._end, False)
        #: Set once the task runs, or the line has ended.
        self.started = asyncio.Event()
        #: Set once the supervisor attends to the task no more.
        self.ended = asyncio.Event()

    def hand_over(self) -> None:
        """Close the far end here: the supervisor has it."""
        os.close(self.far_end)

    def watch(self) -> None:
        """Set the events as they come, in the running loop."""
        asyncio.get_running_loop().add_reader(self._end, self._read)

    def close(self) -> None:
        """Close this end. What the supervisor says from now on is lost, and in the records."""
        if self._end >= 0:
            os.close(self._end)
            self._end = -1

    def unwatch(self) -> None:
        asyncio.get_running_loop().remove_reader(self._end)

    def _read(self) -> None:
        if not os.read(self._end, 16):
            self.unwatch()
            self.ended.set()
        self.started.set()
