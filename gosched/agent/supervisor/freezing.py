"""Freezes and thaws a task: by its runtime's own commands, by its cgroup, or else by signals.

Invariant: `frozen.json` says whether the task is frozen, for the agent to report.
"""

from __future__ import annotations

import signal

from gosched.agent.supervisor.commands import run
from gosched.agent.supervisor.control_group import ControlGroup
from gosched.agent.supervisor.family import signal_all
from gosched.agent.supervisor.launch import Launch
from gosched.agent.supervisor.records import FROZEN, note


class Freezing:
    def __init__(self, launch: Launch, group: ControlGroup) -> None:
        self.launch = launch
        self.group = group
        self.frozen = False

    def set(self, frozen: bool) -> None:
        if frozen == self.frozen:
            return
        if self.launch.freeze:
            if not run(self.launch.freeze if frozen else self.launch.thaw):
                return  # it stands as it did; the agent asks again
        elif not self.group.set_frozen(frozen):
            signal_all(signal.SIGSTOP if frozen else signal.SIGCONT)
        self.frozen = frozen
        note(FROZEN, {"frozen": frozen})

    def end(self) -> None:
        self.set(False)
