"""Proposals of this master: stamped by the state's clock, timed, and turned into API errors when they fail.

Invariant: times enter the log here and nowhere else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

from gosched.core.commands.command import LEVEL_OF, Body, Command
from gosched.core.commands.jobs import SubmitJob
from gosched.core.features import FeatureLevel
from gosched.core.outcome import Outcome
from gosched.core.rules.jobs import check_job
from gosched.master.base.clock import Clock
from gosched.master.base.errors import invalid, unavailable, unmet
from gosched.replication.interface import ProposalFailed, Replication

TIMEOUT_S = 10.0

_without_barrier: ContextVar[bool] = ContextVar("without_barrier", default=False)


@contextmanager
def reads_without_barrier() -> Iterator[None]:
    """Let barriers of this task pass at once: its caller takes what this master's own state says."""
    token = _without_barrier.set(True)
    try:
        yield
    finally:
        _without_barrier.reset(token)


class Proposals:
    """The way into the log. `committed` is told how many seconds each proposal took."""

    def __init__(self, replication: Replication, clock: Clock, committed: Callable[[float], None]) -> None:
        self._replication = replication
        self._clock = clock
        self._committed = committed

    async def propose(
        self, body: Body, *, epoch: int = 0, client_id: str = "", request_id: str = "", timeout_s: float = TIMEOUT_S
    ) -> Outcome:
        """Propose one command. Raises ApiError: UNAVAILABLE when the outcome is not known (ask again with the same
        request id), FAILED_PRECONDITION for a command that masters of the release before may not know."""
        self._check_level(body)
        command = Command(
            body=body, epoch=epoch, client_id=client_id, request_id=request_id, at_ms=self._clock.now_ms()
        )
        return (await self.propose_all([command], timeout_s=timeout_s))[0]

    async def propose_group(
        self, bodies: Sequence[tuple[str, Body]], *, client_id: str, timeout_s: float = TIMEOUT_S
    ) -> list[Outcome]:
        """Propose commands that fit in one log entry, each with its request id. Raises ApiError as `propose` does."""
        now_ms = self._clock.now_ms()
        for _, body in bodies:
            self._check_level(body)
        commands = [
            Command(body=body, client_id=client_id if number else "", request_id=number, at_ms=now_ms)
            for number, body in bodies
        ]
        return await self.propose_all(commands, timeout_s=timeout_s) if commands else []

    def _check_level(self, body: Body) -> None:
        level = LEVEL_OF.get(type(body), FeatureLevel.FIRST)
        now = self._replication.state.feature_level
        if level > now:
            raise unmet(
                f"it needs feature level {level}, and the cluster is at {now}: once all masters are upgraded, run"
                " goschedctl cluster finalize-upgrade"
            )
        # Masters of the release before would take it, and not see what is new in it.
        if now < FeatureLevel.BOUNDED and isinstance(body, SubmitJob) and (found := check_job(body.spec, now)):
            raise invalid(str(found))

    async def propose_all(self, commands: Sequence[Command], *, timeout_s: float = TIMEOUT_S) -> list[Outcome]:
        started = self._clock.monotonic_s()
        try:
            outcomes = await self._replication.propose(commands, timeout_s=timeout_s)
        except ProposalFailed as failed:
            raise unavailable(str(failed)) from failed
        self._committed(self._clock.monotonic_s() - started)
        return outcomes

    async def barrier(self) -> int:
        """Return a revision at which all that was acknowledged before this call is applied here."""
        if _without_barrier.get():
            return self._replication.state.revision
        try:
            return await self._replication.barrier(timeout_s=TIMEOUT_S)
        except ProposalFailed as failed:
            raise unavailable(str(failed)) from failed
