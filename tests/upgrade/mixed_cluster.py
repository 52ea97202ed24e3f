"""A cluster on loopback whose masters begin as the previous release, and are replaced one by one."""

from __future__ import annotations

import shutil
from pathlib import Path

import yaml

from gosched.cli.local_cluster import LocalCluster
from gosched.cli.local_program import Program
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
            if kind == "agent":
                _forget_key(self.data_dir / f"{program.id}.yaml", "volumes")
                _forget_key(self.data_dir / f"{program.id}.yaml", "users", "shared")
            # The interpreter looks in its working directory first, and there is this release's checkout.
            place = ["env", "-C", str(source), f"PYTHONPATH={source}"]
            words = program._command[1:]
            program._command = self._old[program.id] = [*place, *previous.program(kind, *words)]

    def is_new(self, program: Program) -> bool:
        return program._command == self._new[program.id]

    def install(self, program: Program) -> None:
        """This release, for its next start."""
        program._command = self._new[program.id]

    def upgrade(self, program: Program) -> None:
        """Kill it, and start it again as this release; returns once it has all that was committed."""
        index = applied_index(self.leader())
        if program.is_alive:
            kill_whole(program)
        self.install(program)
        self.restart(program)
        until(lambda: applied_index(program) >= index, f"{program.id} is back, upgraded")

    def downgrade(self, program: Program) -> None:
        """Kill it, wipe its directory, which the previous release cannot read, and let that one join anew."""
        if program.is_alive:
            kill_whole(program)
        shutil.rmtree(self.data_dir / program.id)
        config = self.data_dir / f"{program.id}.yaml"
        settings = yaml.safe_load(config.read_text())
        settings["raft"]["bootstrap"] = False
        config.write_text(yaml.safe_dump(settings))
        program._command = self._old[program.id]
        self.restart(program)


def _forget_key(config: Path, *path: str) -> None:
    """One that the previous release does not know."""
    place = settings = yaml.safe_load(config.read_text())
    for key in path[:-1]:
        place = place[key]
    del place[path[-1]]
    config.write_text(yaml.safe_dump(settings))
