"""Runs three members, or up to five that come and go, under a profile from one seed; says which invariant broke."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from gosched.core.outcome import Outcome
from gosched.replication.members.configuration import ids, voters
from gosched.sim.raft.clock import Clock, virtual
from gosched.sim.raft.history import History, Violation
from gosched.sim.raft.member import Member
from gosched.sim.raft.network import Network
from gosched.sim.raft.profiles import PROFILES, Profile
from gosched.sim.raft.run import Counts, Settings
from gosched.sim.raft.workload import Workload

NAMES = ["a", "b", "c"]
SPARE = ["d", "e"]
CHUNK_BYTES = 1500
HEALING_S = 30.0
NOTICED_S = 3.0  # after which the leader knows that a disk is lost
_AT_ONCE = 0.5  # of the new leaders are asked for a change in their first turn


@dataclass(slots=True, kw_only=True)
class Result:
    """What came of one run."""

    profile: str
    seed: int
    #: Empty: all invariants held.
    violation: str
    asked: int
    acked: int
    terms: int
    seconds: float  # virtual
    counts: Counts
    trace: list[str]

    @property
    def replay(self) -> str:
        return f"python -m gosched.sim.raft {self.profile} {self.seed} trace"


def run(name: str, seed: int) -> Result:
    """Deterministic: the same profile and seed give the same trace, whatever PYTHONHASHSEED is."""
    simulation = Simulation(name, seed)
    violation = simulation.run()
    return Result(
        profile=name,
        seed=seed,
        violation=violation,
        asked=simulation.workload.asked,
        acked=len(simulation.workload.acked),
        terms=len(simulation.history.leaders),
        seconds=simulation.clock.now,
        counts=simulation.counts,
        trace=simulation.trace,
    )


class Simulation:
    """Faults for a while, then peace: all must agree in the end."""

    def __init__(self, name: str, seed: int) -> None:
        self.profile: Profile = PROFILES[name]
        self._seed = f"{name} {seed}"
        self._rng = Random(self._seed)
        self.clock = Clock()
        self.history = History()
        self.counts = Counts()
        self.trace: list[str] = []
        self.workload = Workload(self.clock, self.history, self._own_rng("workload"), self._leaders)
        self.workload.names_the_cluster = self.profile.members
        self.names = NAMES + SPARE if self.profile.members else NAMES
        self._network = Network(self.clock, self._seed, self.names, self.profile.weather, self.note)
        self.members = {n: self._member(n) for n in self.names}
        self._wiped_at = -NOTICED_S
        self._led: set[str] = set()  # members that lead, as far as was seen
        self._lost: set[str] = set()  # members whose machines are gone until they are removed
        self._network.members.update(self.members)
        self._peace = False

    def run(self) -> str:
        """Return the violation, or an empty string."""
        with virtual(self.clock, self._own_rng("library"), self.note, chunk_bytes=CHUNK_BYTES):
            try:
                for member in [self.members[name] for name in NAMES]:
                    self._maybe_crash_soon(member, 0.1)
                    member.start()
                self._plan_asking()
                self._plan_faults()
                self.clock.run_until(self.profile.duration)
                self._make_peace()
                self._converge()
            except Violation as violation:
                self.note(f"VIOLATION {violation}")
                return str(violation)
        return ""

    def note(self, what: str) -> None:
        self.trace.append(f"{self.clock.now:9.4f}  {what}")

    # What members tell

    def answered(self, proposal: tuple[str, int], outcomes: list[Outcome]) -> None:
        self.workload.answered(proposal, outcomes)

    def turned(self, member: Member) -> None:
        self.history.durable(self.members.values())
        if not member.leads:
            self._led.discard(member.name)
        elif member.name not in self._led:
            self._led.add(member.name)
            if self.profile.members and not self._peace and self._rng.random() < _AT_ONCE:
                self._change(self._rng.choice(["add", "remove"]), member)

    def removed(self, member: Member) -> None:
        self.history.durable(self.members.values())

    def ended(self, member: Member) -> None:
        self.history.durable(self.members.values())
        if member.name in self._lost:
            return
        self.clock.after(
            0.2 if self._peace else self._rng.random() * self.profile.downtime, lambda: self._restart(member)
        )

    # Making of

    def _member(self, name: str) -> Member:
        profile = self.profile
        settings = Settings(
            timing=profile.timing,
            compact_entries=profile.compact_entries,
            batch_bytes=profile.batch_bytes,
            power_loss_share=profile.power_loss_share,
            slow_sync=profile.slow_sync,
            snapshot_s=profile.snapshot_s,
        )
        return Member(
            name,
            {n: f"{n}:7000" for n in sorted({*NAMES, name})},
            clock=self.clock,
            network=self._network,
            history=self.history,
            counts=self.counts,
            rng=self._own_rng(name),
            settings=settings,
            note=self.note,
            owner=self,
        )

    def _own_rng(self, purpose: str) -> Random:
        return Random(f"{self._seed} {purpose}")

    def _leaders(self) -> list[Member]:
        return [m for m in self.members.values() if m.leads and m.reachable()]

    # Load and faults

    def _plan_asking(self) -> None:
        def ask() -> None:
            for _ in range(self.profile.burst):
                self.workload.ask()
            if not self._peace:
                self.clock.after(self._rng.expovariate(1 / self.profile.ask_every), ask)

        self.clock.after(1.0, ask)

    def _plan_faults(self) -> None:
        def fault() -> None:
            if self._peace:
                return
            kinds = self.profile.faults
            kind = self._rng.choices(list(kinds), list(kinds.values()))[0]
            self._do(kind)
            self.clock.after(self._rng.expovariate(1 / self.profile.fault_every), fault)

        self.clock.after(self._rng.uniform(0.0, 1.5), fault)

    def _do(self, kind: str) -> None:
        one, other = self._rng.sample(list(self.members.values()), 2)
        match kind:
            case "crash":
                self._crash(one)
            case "restart all":
                self.note("all crash")
                for member in self.members.values():
                    member.crash()
            case "pause":
                self.note(f"{one.name} is paused")
                one.turns.paused_until = self.clock.now + self._rng.random() * self.profile.pause
            case "cut":
                self.note(f"{one.name} no longer reaches {other.name}")
                self._network.cut(one.name, other.name)
            case "isolate":
                self.note(f"{one.name} is cut off")
                for name in self.names:
                    self._network.cut(one.name, name)
                    self._network.cut(name, one.name)
            case "split":
                self._split()
            case "heal":
                self.note("the network is whole")
                self._network.heal()
            case "reset":
                self._network.reset(one.name, other.name)
            case "transfer":
                for member in self._leaders():
                    self.note(f"{member.name} hands over")
                    member.transfer()
            case "disk full":
                self.note(f"the disk of {one.name} is full")
                one.disk.full = True
            case "wipe":
                self._wipe(one)
            case "lose":
                if self._wipe(one):
                    self._lost.add(one.name)
            case "add" | "remove":
                for leader in self._leaders() * self._rng.randint(1, 2):  # operators have no patience
                    self._change(kind, leader)
            case _:
                raise ValueError(kind)

    def _split(self) -> None:
        side = set(self._rng.sample(self.names, self._rng.randint(1, len(self.names) - 1)))
        self.note(f"{sorted(side)} are cut off")
        for one in self.names:
            for other in self.names:
                if (one in side) is not (other in side):
                    self._network.cut(one, other)

    def _crash(self, member: Member) -> None:
        if member.node is None:
            return
        if self._rng.random() < 0.3:
            member.crash()
        else:
            self._maybe_crash_soon(member, 1.0)

    def _maybe_crash_soon(self, member: Member, chance: float) -> None:
        if self._rng.random() < chance:
            member.crash_soon(int(self._rng.paretovariate(0.8)) - 1)

    def _wipe(self, member: Member) -> bool:
        """Wipe one disk at a time: only while the others vote, so that a majority holds what was acknowledged."""
        others = {name for name, m in self.members.items() if m.votes and m is not member}
        for counted in self._counted():
            if member.name not in counted or not counted - {member.name} <= others or len(counted) < 3:
                return False
        member.wipe()
        self._wiped_at = self.clock.now
        return True

    def _counted(self) -> list[set[str]]:
        """Return the members that may decide, as some member sees it."""
        if not self.profile.members:
            return [set(NAMES)]
        taking_part = [m for m in self.members.values() if m.votes]
        return [set(self.history.force), *(voters(m.newest) for m in taking_part)]

    def _change(self, kind: str, leader: Member) -> None:
        """Ask a leader for a change of members; it may be one that does not know yet that it leads no more."""
        there = ids(leader.newest)
        lost = sorted(there & self._lost)
        if kind == "remove" and self.clock.now - self._wiped_at < NOTICED_S:
            return  # a master less and a disk less at once are more than three can bear
        if kind == "remove":
            name = lost[0] if lost else self._rng.choice(sorted(there))
        else:
            name = self._rng.choice([*(n for n in self.names if n not in there), ""])
            if not name or not self._begin_anew(self.members[name]):
                return
        refusal = leader.change(kind, name, f"{name}:7000")
        self.note(f"{leader.name} is asked to {kind} {name}: {refusal or 'done'}")
        if kind == "remove" and not refusal:
            self.counts.members_removed += 1
        for gone in [n for n in self._lost if leader.state.configuration and n not in ids(leader.state.configuration)]:
            self._lost.discard(gone)

    def _begin_anew(self, member: Member) -> bool:
        """Start a member with an empty disk, unless it waits to be added already, or was removed and may not know."""
        if member.node is not None:
            return member.joining
        if not (member.is_removed or not member.started or member.name in self._lost):
            return False
        if member.name in self._lost:
            return False
        member.wipe()
        member.start()
        return True

    def _restart(self, member: Member) -> None:
        if member.is_removed:
            return
        if self._peace or self._rng.random() < 0.5:
            member.disk.full = False
        if not self._peace:
            self._maybe_crash_soon(member, 0.1)
        member.start()

    # The end

    def _make_peace(self) -> None:
        self.note("peace")
        self._peace = True
        self._network.heal()
        self._network.weather = self.profile.healed
        for member in self.members.values():
            member.turns.paused_until = 0.0
            member.disk.full = False
            member.disk.slow = 0.0
            member.disk.disarm()
            member.wake()
        for name in self._lost:  # the machine comes back, with an empty disk
            self.members[name].start()
        self._lost.clear()

    def _converge(self) -> None:
        self._probe = self.workload.ask()
        self.clock.run_until(self.clock.now + HEALING_S, done=self._all_agree)
        members = self._members_in_force()
        if not self._all_agree():
            places = {m.name: (m.applied, "joins" if m.joining else "leads" if m.leads else "") for m in members}
            raise Violation(f"no agreement {HEALING_S:.0f} s after all faults ended: {places}")
        if len({m.state.digest() for m in members}) != 1:
            raise Violation(f"the members end in different states at entry {members[0].applied}")
        self.workload.check(members[0].state)

    def _all_agree(self) -> bool:
        members = self._members_in_force()
        up = all(m.node is not None and not m.joining and m.name in voters(m.newest) for m in members)
        return up and self._probe.answered and len({m.applied for m in members}) == 1

    def _members_in_force(self) -> list[Member]:
        """Return the members by what was applied last anywhere."""
        last = max(self.members.values(), key=lambda m: m.applied)
        return [self.members[name] for name in sorted(ids(last.newest))]
