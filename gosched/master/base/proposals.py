"""Proposals of this master: stamped by the state's clock, timed, and turned into API errors when they fail.

Invariant: times enter the log here and nowhere else; and each change that users ask for goes through `once`, so that no
precondition refuses the repeat of a request that has taken effect.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Protocol

from gosched.core.commands.command import LEVEL_OF, Body, Command
from gosched.core.commands.jobs import SubmitJob
from gosched.core.features import FeatureLevel
from gosched.core.outcome import Accepted, Outcome
from gosched.core.rules.jobs import check_job
from gosched.master.base.clock import Clock
from gosched.master.base.errors import ApiError, accepted, check_request_id, invalid, unavailable, unmet
from gosched.replication.interface import ProposalFailed, Replication
from gosched.state_machine.answers import outcome_of

TIMEOUT_S = 10.0
MAX_UNSETTLED = 10_000  # requests whose proposals failed, or go on; the oldest are forgotten

_without_barrier: ContextVar[bool] = ContextVar("without_barrier", default=False)
_not_again: ContextVar[ApiError | None] = ContextVar("not_again", default=None)


@contextmanager
def reads_without_barrier() -> Iterator[None]:
    """Let barriers of this task pass at once: its caller takes what this master's own state says."""
    token = _without_barrier.set(True)
    try:
        yield
    finally:
        _without_barrier.reset(token)


def is_without_barrier() -> bool:
    """Return whether the caller of this task takes what this master has."""
    return _without_barrier.get()


def repeats_only(refusal: ApiError | None) -> None:
    """Let this task have the answers of requests that were answered before, and make no change, but get this refusal;
    None: it may make changes."""
    _not_again.set(refusal)


def has_answers_only() -> bool:
    """Return whether this task has nothing but the answer of a request that was answered before."""
    return _not_again.get() is not None


class Named(Protocol):
    """A request that may be repeated: its answer is remembered under its two ids."""

    client_id: str
    request_id: str


class Proposals:
    """The way into the log. `committed` is told how many seconds each proposal took."""

    def __init__(self, replication: Replication, clock: Clock, committed: Callable[[float], None]) -> None:
        self._replication = replication
        self._clock = clock
        self._committed = committed
        self._unsettled: dict[tuple[str, str], None] = {}  # requests that may be in the log, and not applied yet

    async def once(self, request: Named, change: Callable[[], Awaitable[Accepted]]) -> Accepted:
        """Return the first answer to a request that was answered before, else what `change` returns. What that looks at
        before it proposes (permissions, If-Match, levels, who is connected) is of no account to a repeat. Raises
        ApiError: also the first answer, where it was a refusal."""
        check_request_id(request)
        if (request.client_id, request.request_id) in self._unsettled:
            await self.barrier()
        first = self.first_answer(request)
        if first is not None:
            return accepted(first)
        if (refusal := _not_again.get()) is not None:  # its answer is forgotten by now, or it is a try
            raise refusal
        return await change()

    def first_answer(self, request: object) -> Outcome | None:
        """Return what was answered before to a request of these ids; None: nothing, or it has none."""
        client_id, request_id = getattr(request, "client_id", ""), getattr(request, "request_id", "")
        if not request_id or getattr(request, "dry_run", False):
            return None
        found = self._replication.state.answer_to(client_id, request_id)
        return outcome_of(found) if found is not None else None

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
        asked = [(command.client_id, command.request_id) for command in commands if command.request_id]
        for ids in asked:
            self._unsettled[ids] = None
        while len(self._unsettled) > MAX_UNSETTLED:
            del self._unsettled[next(iter(self._unsettled))]
        try:
            outcomes = await self._replication.propose(commands, timeout_s=timeout_s)
        except ProposalFailed as failed:
            raise unavailable(str(failed)) from failed
        for ids in asked:
            self._unsettled.pop(ids, None)
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
