"""Keeps the state's clock near the masters': hears the other masters' clocks, and with them their releases, takes the
steps that no stamp may take, and sets the clock back when an operator asks for it.

Invariant: only what a majority agrees on is taken over.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

import grpc
import structlog

from gosched.core.commands.cluster import PassTime, SetClock
from gosched.core.commands.jobs import NextRun
from gosched.core.features import FeatureLevel
from gosched.core.limits import MAX_CLOCK_STEP_MS, MAX_NAME_LENGTH
from gosched.core.outcome import Accepted
from gosched.core.records.job import Job
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.channels import Channels
from gosched.master.base.clock import StateClock, utc
from gosched.master.base.errors import accepted, tried, unmet
from gosched.master.base.proposals import Proposals
from gosched.master.jobs.schedules import first_run_ms
from gosched.replication.interface import Replication
from gosched.wire.v1 import cluster_pb2, cluster_pb2_grpc

HEAR_EVERY_S = 1.0
HEAR_TIMEOUT_S = 1.0
LOOK_EVERY_S = 1.0
KEEP_UP_MS = MAX_CLOCK_STEP_MS // 4  # without a command for so long the clock is told that time has passed

log = structlog.get_logger()


class ClockKeeper:
    def __init__(
        self,
        replication: Replication,
        proposals: Proposals,
        masters: Channels,
        clock: StateClock,
        *,
        bound_ms: int,
    ) -> None:
        self._replication = replication
        self._proposals = proposals
        self._masters = masters
        self._clock = clock
        self._bound_ms = bound_ms
        self._complaint = ""
        #: The release of each other master that was heard, also of one that is away now.
        self.versions: dict[str, str] = {}

    async def hear(self) -> None:
        """Ask the other masters for their clocks, on each master, until it is cancelled: the next leader then knows
        them already."""
        while True:
            others = [m for m in self._state.masters.values() if m.id != self._replication.member_id]
            await asyncio.gather(*(self._hear(master.id, master.grpc_address) for master in others))
            self.versions = {m.id: self.versions[m.id] for m in others if m.id in self.versions}
            self._complain()
            await asyncio.sleep(HEAR_EVERY_S)

    async def keep_up(self, epoch: int) -> None:
        """Move the state's clock forward where it lags behind, on the leader, until it is cancelled."""
        while True:
            behind_ms = self._clock.now_ms() - self._state.clock_ms
            if behind_ms > MAX_CLOCK_STEP_MS and self._may_set():
                log.info("the state's clock is set forward", by_s=behind_ms // 1000)
                tried(await self._proposals.propose(SetClock(to_ms=self._clock.now_ms()), epoch=epoch))
            elif behind_ms > KEEP_UP_MS:
                tried(await self._proposals.propose(PassTime(), epoch=epoch))
            await asyncio.sleep(LOOK_EVERY_S)

    async def set_back(self, client_id: str, request_id: str) -> Accepted:
        """Set the clock back to the time of the majority; the answer's subject is the time before. Raises ApiError."""
        if not self._may_set():
            raise unmet(f"the clock can be set from feature level {FeatureLevel.BOUNDED} on: upgrade all masters")
        to_ms = self._clock.agreed_ms()
        if to_ms is None:
            raise unmet(f"the masters' clocks do not agree ({self._readings()}): set them (for example with NTP) first")
        if self._clock.now_ms() - to_ms < LOOK_EVERY_S * 1000:  # it is right, as far as clocks can be
            return Accepted(subject=str(self._state.clock_ms), unchanged=True)
        log.warning("the state's clock is set back", to=utc(to_ms), by_s=(self._state.clock_ms - to_ms) // 1000)
        self._clock.hold(to_ms)
        try:
            command = SetClock(to_ms=to_ms, runs=_next_runs(self._state.jobs.values(), to_ms))
            return accepted(await self._proposals.propose(command, client_id=client_id, request_id=request_id))
        finally:
            self._clock.release()

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def offsets_ms(self) -> dict[str, int]:
        """Return how far each master's wall clock, if it was heard lately, is ahead of the state's clock."""
        now_ms = self._clock.now_ms()
        return {m: at_ms - now_ms for m, at_ms in self._clock.masters_ms(self._replication.member_id).items()}

    def problem(self) -> str:
        """Return what is wrong with the clocks, and what to do, in one line; empty: nothing."""
        agreed_ms = self._clock.agreed_ms()
        if agreed_ms is None:
            readings = self._clock.masters_ms(self._replication.member_id)
            if max(readings.values()) - min(readings.values()) <= self._bound_ms:
                return ""  # the others are still to be heard
            return (
                f"the masters' clocks do not agree ({self._readings()}): set them (for example with NTP); the state's"
                " clock goes on at its own pace meanwhile"
            )
        ahead_s = (self._clock.now_ms() - agreed_ms) // 1000
        if ahead_s * 1000 > self._bound_ms:
            return (
                f"the state's clock is {ahead_s} s ahead of the masters', and goes slower until they meet; goschedctl"
                " cluster set-clock sets it back"
            )
        readings = self._clock.masters_ms(self._replication.member_id)
        wrong = [m for m, at_ms in sorted(readings.items()) if abs(at_ms - agreed_ms) > self._bound_ms]
        if wrong:
            return f"the clock of {', '.join(wrong)} is wrong ({self._readings()}): set it (for example with NTP)"
        return ""

    def _readings(self) -> str:
        readings = self._clock.masters_ms(self._replication.member_id)
        return ", ".join(f"{master} {utc(at_ms)}" for master, at_ms in sorted(readings.items()))

    def _complain(self) -> None:
        """Log each kind of trouble once: the figures in it change all the time."""
        problem = self.problem()
        kind = problem.partition("(")[0].translate(_NO_DIGITS)
        if kind != self._complaint:
            self._complaint = kind
            log.warning("clocks", problem=problem or "none any more")

    async def _hear(self, master: str, address: str) -> None:
        stub = cluster_pb2_grpc.ClusterServiceStub(self._masters.to(address))
        asked_s = self._clock.monotonic_s()
        try:
            async with asyncio.timeout(HEAR_TIMEOUT_S):  # gRPC's own goes by the wall clock
                answer = await stub.ReadClock(cluster_pb2.ReadClockRequest())
        except (grpc.aio.AioRpcError, TimeoutError):  # it is gone, or of a release that does not tell
            return
        self.versions[master] = answer.version[:MAX_NAME_LENGTH]
        way_ms = (self._clock.monotonic_s() - asked_s) * 1000 / 2
        self._clock.heard_master(master, answer.clock_ms + way_ms)

    def _may_set(self) -> bool:
        return self._state.feature_level >= FeatureLevel.BOUNDED

    @property
    def _state(self) -> ClusterState:
        return self._replication.state


_NO_DIGITS = {ord(digit): None for digit in "0123456789"}


def _next_runs(jobs: Iterable[Job], now_ms: int) -> tuple[NextRun, ...]:
    """Return the next runs of the schedules that would wait for longer than their cron says."""
    runs: list[NextRun] = []
    for job in jobs:
        if job.spec.cron and not job.state.is_final and job.children.next_run_at_ms > now_ms:
            try:
                at_ms = first_run_ms(job.spec.cron, job.spec.timezone, now_ms)
            except ValueError as error:  # its next run stays where it is
                log.warning("the next run of a schedule is not known", job=job.id, name=job.spec.name, why=str(error))
                continue
            if at_ms < job.children.next_run_at_ms:
                runs.append(NextRun(job_id=job.id, at_ms=at_ms))
    return tuple(runs)
