"""The simulator itself: it can be replayed, and it goes where it is meant to go."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from gosched.sim.raft import simulation
from gosched.sim.raft.__main__ import main
from gosched.sim.raft.history import Violation
from gosched.sim.raft.profiles import PROFILES
from gosched.sim.raft.simulation import run


@pytest.mark.parametrize("profile", PROFILES)
def test_a_few_seeds_hold_all_invariants(profile: str) -> None:
    results = [run(profile, seed) for seed in range(3)]
    for result in results:
        assert not result.violation, f"{result.violation}; replay it with: {result.replay}"
    assert sum(r.acked for r in results) > sum(r.asked for r in results) // 2


def test_a_seed_gives_the_same_run_under_every_hash_seed() -> None:
    told = [
        subprocess.run(
            [sys.executable, "-m", "gosched.sim.raft", "wipe", "4", "trace"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            check=True,
            timeout=60,
        ).stdout
        for hash_seed in ("1", "2")
    ]
    assert told[0] == told[1]
    assert len(told[0].splitlines()) > 20


def test_the_command_line_tells_of_violations_and_how_to_replay_them(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert main(["plain", "0", "2"]) == 0
    assert "seeds=2 violating=0" in capsys.readouterr().out
    assert main(["nothing", "0", "2"]) == 2
    monkeypatch.setattr(simulation.Simulation, "_converge", lambda self: (_ for _ in ()).throw(Violation("made up")))
    assert main(["plain", "7", "1"]) == 1
    assert "plain 7: made up\n    replay: python -m gosched.sim.raft plain 7 trace" in capsys.readouterr().out
