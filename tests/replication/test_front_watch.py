"""How long a front may be silent before its member gives up the lead."""

from __future__ import annotations

import subprocess
import sys
import time

import pysyncobj.syncobj as library
import pytest

from gosched.replication.front_watch import HOLD_S, LEAST_S, MOST_S, FrontWatch, waited_for_cpu_s

TURN_S = 0.02


class Turning:
    """A replica's turns on a clock of their own."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(library, "monotonicTime", lambda: self.now)
        self.waited_s = 0.0
        self.watch = FrontWatch(self.now, lambda: self.waited_s)

    def turn(
        self, seconds: float, *, leads: bool = True, other_leads: bool = False, talks: bool = False, waits: float = 0.0
    ) -> bool:
        """Let time pass; return whether the front spoke all the while. `waits`: the share of the time in which it
        waits for a processor."""
        spoke = True
        for _ in range(round(seconds / TURN_S)):
            self.now += TURN_S
            self.waited_s += waits * TURN_S
            if talks:
                self.watch.heard()
            spoke &= self.watch.turn(self.now, leads=leads, other_leads=other_leads)
        return spoke


@pytest.fixture
def turning(monkeypatch: pytest.MonkeyPatch) -> Turning:
    return Turning(monkeypatch)


def test_a_front_that_stands_still_is_found_out_at_once_where_it_was_quick_before(turning: Turning) -> None:
    assert turning.turn(60, talks=True)
    assert turning.turn(LEAST_S - 0.1)
    assert not turning.turn(0.2)
    assert turning.turn(0.1, talks=True)


def test_silences_that_ended_by_themselves_teach_patience_for_a_while(turning: Turning) -> None:
    turning.turn(60, talks=True)
    for _ in range(3):
        assert turning.turn(1.5)
        assert turning.turn(0.1, talks=True)
    assert turning.turn(4.4), "three times the longest"
    assert not turning.turn(0.2)
    turning.turn(60, talks=True)
    turning.turn(LEAST_S - 0.1)
    assert not turning.turn(0.2), "that is forgotten"


def test_a_front_that_waits_for_a_processor_is_not_silent(turning: Turning) -> None:
    turning.turn(60, talks=True)
    assert turning.turn(MOST_S - 0.1, waits=0.9)
    assert not turning.turn(0.2, waits=0.9), "for that long another machine is the better leader"
    turning.turn(60, talks=True)
    turning.turn(LEAST_S - 0.1, waits=0.05)
    assert not turning.turn(0.3, waits=0.05)


def test_the_kernel_counts_how_long_a_process_waits_for_a_processor() -> None:
    code = "import os\nos.sched_setaffinity(0, {min(os.sched_getaffinity(0))})\nwhile True: pass"
    programs = [subprocess.Popen([sys.executable, "-c", code]) for _ in range(2)]
    try:
        ends = time.monotonic() + 30
        while waited_for_cpu_s(programs[0].pid) < 0.1 and time.monotonic() < ends:
            time.sleep(0.02)
        assert waited_for_cpu_s(programs[0].pid) >= 0.1
    finally:
        for program in programs:
            program.kill()
            program.wait()
    assert waited_for_cpu_s(programs[0].pid) == 0.0


def test_no_patience_is_longer_than_a_bound(turning: Turning) -> None:
    turning.turn(30)
    turning.turn(0.1, talks=True)
    assert turning.turn(MOST_S - 0.1)
    assert not turning.turn(0.2)


def test_who_took_the_lead_over_from_a_living_leader_does_not_hand_it_on_at_once(turning: Turning) -> None:
    turning.turn(60, leads=False, other_leads=True, talks=True)
    assert turning.turn(0.5, talks=True)
    assert turning.turn(5), "its front may be as slow as that of the leader before"
    turning.turn(HOLD_S + 60, talks=True)
    turning.turn(LEAST_S - 0.1)
    assert not turning.turn(0.2)


def test_a_first_leader_has_the_usual_patience(turning: Turning) -> None:
    turning.turn(5, leads=False, talks=True)
    turning.turn(LEAST_S - 0.1)
    assert not turning.turn(0.2)
