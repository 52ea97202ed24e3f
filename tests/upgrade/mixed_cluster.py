"""A cluster on loopback whose masters begin as the previous release, and are replaced one by one."""

from __future__ import annotations

from pathlib import Path

from gosched.cli.local_cluster import LocalCluster, Program
from tests.integration.support import applied_index, kill_whole, until
from tests.upgrade import previous


class MixedCluster(LocalCluster):
    """All programs begin as the previous release; agents stay so."""

    def __init__(self, source: Path, *, masters: int = 3, agents: int = 2) -> None:
        super().__init__(masters=masters, agents=agents)
        self._new = {program.id: program._command for program in self.programs}
        self._old = {}
        for program in self.programs:
            kind = "master" if program.http else "agent"
            # The interpreter looks in its working directory first, and there is this release's checkout.
            place = ["env", "-C", str(source), f"PYTHONPATH={source}"]
            words = program._command[1:]
            program._command = self._old[program.id] = [*place, *previous.program(kind, *words)]

    def is_new(self, program: Program) -> bool:
        return program._command == self._new[program.id]

    def upgrade(self, program: Program) -> None:
        """Kill it, and start it again as this release; returns once it has all that was committed."""
        index = applied_index(self.leader())
        if program.is_alive:
            kill_whole(program)
        program._command = self._new[program.id]
        self.restart(program)
        until(lambda: applied_index(program) >= index, f"{program.id} is back, upgraded")

    def downgrade(self, program: Program) -> None:
        """Kill it, and start it again as the previous release."""
        kill_whole(program)
        program._command = self._old[program.id]
        self.restart(program)
