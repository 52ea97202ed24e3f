"""The flaw of single-server changes that Ongaro found in 2015, step by step: two leaders each remove another member.

Four vote. The first leader is cut off as it removes one of the others, and nobody has its entry. The next one has heard
from one member alone when it is asked to remove the first leader. Two of three agree to either change, and the two
pairs have nobody in common: what one of them committed would be lost.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gosched.replication.members.configuration import voters
from gosched.sim.raft.clock import virtual
from gosched.sim.raft.history import Violation
from gosched.sim.raft.member import Member
from gosched.sim.raft.simulation import CHUNK_BYTES, Simulation

from .mutations import MUTATIONS

GUARD = "R16: a leader changes the members before it has committed an entry of its term"


class Story(Simulation):
    """No fault but those of the story."""

    second: Member | None = None  # leads after the first
    alone = ""  # is cut off as soon as it does
    apart: tuple[str, ...] = ()  # the first leader, the one that it removes, and the others

    def turned(self, member: Member) -> None:
        self.history.durable(self.members.values())
        if self.second is None and self.apart and member.leads and member.name != self.apart[0]:
            self.second = member
            self.alone = next(name for name in self.apart[2:] if name != member.name)  # the first one's change has it
            for one in self.names:
                self.part(one, self.alone)

    def part(self, one: str, other: str) -> None:
        self._network.cut(one, other)
        self._network.cut(other, one)

    def until(self, done: Callable[[], object], seconds: float = 30.0) -> bool:
        self.clock.run_until(self.clock.now + seconds, done=lambda: bool(done()))
        return bool(done())

    def leader(self) -> Member | None:
        return next(iter(self._leaders()), None)

    def tell(self) -> str:
        """Return what the second leader answered; raises Violation."""
        with virtual(self.clock, self._own_rng("library"), self.note, chunk_bytes=CHUNK_BYTES):
            for name in "abc":
                self.members[name].start()
            assert self.until(self.leader)
            for _ in range(2):  # queues, then the level
                asked = self.workload.ask()
                assert self.until(lambda asked=asked: asked.answered)
            assert self.until(lambda: (leader := self.leader()) and leader.newest.version == 1)
            leader = self.leader()
            assert leader is not None
            self._begin_anew(self.members["d"])
            self.until(lambda: False, 0.5)
            assert not leader.change("add", "d", "d:7000")
            assert self.until(lambda: all("d" in voters(self.members[m].newest) for m in "abcd"))
            assert self.until(lambda: leader.leads and self.members["d"].votes)
            self.until(lambda: False, 2.0)  # all know how far the log is committed
            first, others = leader, [n for n in "abcd" if n != leader.name]
            assert not first.change("remove", others[0], "")
            for other in others:
                self.part(first.name, other)
            self.apart = (first.name, *others)
            assert self.until(lambda: self.second)
            second = self.second
            assert second is not None
            for _ in range(200):
                answer = second.change("remove", first.name, "")
                if not answer or "just taken over" in answer:
                    break
                self.until(lambda: False, 0.01)  # it has heard of no member yet
            self.until(lambda: False, 0.5)  # its entry is committed, if it may be
            self._network.heal()
            pair = {first.name, self.alone}
            for one in self.names:
                for other in self.names:
                    if (one in pair) is not (other in pair):
                        self.part(one, other)
            self.until(lambda: first.leads)
            self.until(lambda: False, 1.0)
            return answer


def test_a_leader_changes_nothing_before_it_has_committed_an_entry_of_its_own_term() -> None:
    assert "the leader has just taken over" in Story("members", 3).tell()


def test_without_that_rule_a_committed_change_is_lost() -> None:
    with MUTATIONS[GUARD].applied(), pytest.raises(Violation, match="committed"):
        Story("members", 3).tell()
