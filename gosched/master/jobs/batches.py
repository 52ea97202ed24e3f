"""Batches: many submissions by one request, each with an outcome of its own.

With `all_or_nothing` what can be checked is checked before the first submission: each spec by the rules of the state
machine, and what the state says of its queue and its name. Then the jobs are proposed in their order, in groups that
each fit in one log entry, one group after the other. So a batch is not atomic in the log: other commands may stand
between its groups, and a state that changed since the check may refuse single jobs.

Invariant: an interrupted batch that is repeated under its request id submits no job twice.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

import grpc

from gosched.core.commands.jobs import SubmitJob
from gosched.core.features import FeatureLevel
from gosched.core.limits import MAX_NAME_LENGTH, MAX_SPEC_BYTES
from gosched.core.outcome import Outcome
from gosched.core.request_ids import asker_of
from gosched.core.rules.jobs import check_begin_in_time, check_job
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.task_group import TaskGroup
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.errors import ApiError, accepted, busy, invalid, parsed, unavailable
from gosched.master.base.proposals import Proposals
from gosched.master.jobs.admission import Admissions
from gosched.replication.group_commit import BATCH_BYTES
from gosched.replication.interface import Replication
from gosched.state_machine.children import live_namesake
from gosched.state_machine.queues import submission_refusal
from gosched.wire.v1 import scheduler_pb2, types_pb2

MAX_BATCH = 10_000  # jobs
MAX_DEADLINES = 100  # jobs of a batch for whose deadlines a start is planned, one by one
MAX_AT_ONCE = 2  # batches; each is held in memory, as messages and as records
WAIT_S = 10.0  # for the batches that came before
SPEC_OVERHEAD_BYTES = 64 * 1024  # of a spec's message, beyond its texts
MAX_GROUP = 100  # commands of one proposal: applying them holds up the event loop of every front
_COMMAND_BYTES = 256  # of a command, beside its spec and the texts of its batch
_TURN = 50  # specs that are looked at between two turns of the event loop
_MAX_WARNED = 50  # different sets of task groups whose warnings are looked for

Named = Callable[[SubmitJob], SubmitJob]


@dataclass(slots=True, eq=False)
class _Part:
    """A spec of the batch, and what became of it."""

    place: int
    spec: JobSpec | None = None
    size: int = 0
    outcome: scheduler_pb2.SubmitOutcome = field(default_factory=scheduler_pb2.SubmitOutcome)
    #: By an earlier try of the batch: its outcome is the first answer.
    was_answered: bool = False

    @property
    def is_open(self) -> bool:
        return not self.outcome.code

    def refuse(self, code: grpc.StatusCode, problem: str) -> None:
        self.outcome.code, self.outcome.problem = code.name, problem


class Batches:
    """The batches of a leader."""

    def __init__(
        self,
        proposals: Proposals,
        admissions: Admissions,
        replication: Replication,
        warnings: Callable[[JobSpec], list[str]],
    ) -> None:
        self._proposals = proposals
        self._admissions = admissions
        self._replication = replication
        self._warnings = warnings
        self._places = asyncio.Semaphore(MAX_AT_ONCE)
        self._turns: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()  # of users with batches

    async def submit(
        self, request: scheduler_pb2.SubmitJobsRequest, named: Named, check: Callable[[JobSpec], None]
    ) -> scheduler_pb2.SubmitJobsResponse:
        """Submit the jobs; `named` adds who submits them, `check` raises ApiError for one that its submitter may not
        submit. Raises ApiError where nothing is known of their outcomes."""
        _check_request(request)
        async with self._place(asker_of(request.client_id)):
            parts = await self._checked(request, check)
            has_begun = any(part.was_answered for part in parts)
            if not request.all_or_nothing or has_begun or _all_or_none(parts):
                await self._submit(request, parts, named)
                await self._warn(parts)
        outcomes = [part.outcome for part in parts]
        return scheduler_pb2.SubmitJobsResponse(outcomes=outcomes, revision=self._replication.state.revision)

    @asynccontextmanager
    async def _place(self, user: str) -> AsyncIterator[None]:
        """Hold a place. The batches of one user take turns, so that others find one."""
        turn = self._turns.setdefault(user, asyncio.Lock()) if user else asyncio.Lock()
        async with AsyncExitStack() as held:
            try:
                async with asyncio.timeout(WAIT_S):
                    await held.enter_async_context(turn)
                    await held.enter_async_context(self._places)
            except TimeoutError:
                raise busy(f"{MAX_AT_ONCE} batches of jobs are being submitted already: try again later") from None
            yield

    async def _checked(self, request: scheduler_pb2.SubmitJobsRequest, check: Callable[[JobSpec], None]) -> list[_Part]:
        """Return the parts of a batch; those that were found wrong have their outcome."""
        await self._proposals.barrier()
        state = self._replication.state
        first = [self._first_answer(request, place) for place in range(len(request.specs))]
        has_begun = any(first)
        known_names: dict[tuple[str, str], int] = {}
        parts: list[_Part] = []
        deadlines = 0
        for place, message in enumerate(request.specs):
            part = _Part(place=place)
            parts.append(part)
            try:
                part.spec, part.size = spec_of(message), message.ByteSize()
                if (answer := first[place]) is not None:
                    part.was_answered = True
                    _take(part, answer)
                    known_names.setdefault((part.spec.tenant, part.spec.name), place)
                    continue
                check(part.spec)
                at_once = request.all_or_nothing or state.feature_level < FeatureLevel.BOUNDED  # see Proposals
                if at_once and (found := check_job(part.spec, state.feature_level)):
                    raise invalid(str(found))
            except ApiError as error:
                part.refuse(error.code, error.detail)
                continue
            deadlines += _has_deadline(part.spec)
            if request.all_or_nothing and not has_begun and (problem := _state_problem(state, part.spec, known_names)):
                part.refuse(grpc.StatusCode.FAILED_PRECONDITION, problem)
            known_names.setdefault((part.spec.tenant, part.spec.name), place)
            if not place % _TURN:
                await asyncio.sleep(0)
        if deadlines > MAX_DEADLINES:
            raise invalid(f"{deadlines} of the jobs have a deadline; at most {MAX_DEADLINES} may have one in a batch")
        return parts

    def _first_answer(self, request: scheduler_pb2.SubmitJobsRequest, place: int) -> Outcome | None:
        named = scheduler_pb2.SubmitJobRequest(client_id=request.client_id, request_id=_request_id(request, place))
        return self._proposals.first_answer(named)

    async def _submit(self, request: scheduler_pb2.SubmitJobsRequest, parts: Sequence[_Part], named: Named) -> None:
        taken = 0
        texts = (request.client_id, request.request_id, request.user)
        overhead = _COMMAND_BYTES + sum([len(text.encode()) for text in texts]) + 4 * MAX_NAME_LENGTH
        try:
            for group in _groups([part for part in parts if part.is_open and not part.was_answered], overhead):
                if _has_deadline(_known(group[0])):
                    await self._submit_one(request, group[0], named)
                else:
                    await self._submit_group(request, group, named)
                taken += len(group)
                await asyncio.sleep(0)
        except ApiError as error:
            if error.code is not grpc.StatusCode.UNAVAILABLE:
                raise
            raise unavailable(
                f"{error.detail}; {taken} of {len(parts)} jobs were dealt with before: repeat the whole batch under its"
                " request id"
            ) from error

    async def _submit_group(
        self, request: scheduler_pb2.SubmitJobsRequest, group: Sequence[_Part], named: Named
    ) -> None:
        commands: list[tuple[str, SubmitJob]] = []
        sent: list[_Part] = []
        for part in group:
            try:
                command = named(self._admissions.plain(_known(part)))
            except ApiError as error:  # of a schedule that never runs
                part.refuse(error.code, error.detail)
                continue
            commands.append((_request_id(request, part.place), command))
            sent.append(part)
        outcomes = await self._proposals.propose_group(commands, client_id=request.client_id)
        for part, outcome in zip(sent, outcomes, strict=True):
            _take(part, outcome)

    async def _submit_one(self, request: scheduler_pb2.SubmitJobsRequest, part: _Part, named: Named) -> None:
        number = _request_id(request, part.place)
        try:
            async with self._admissions.submission(_known(part)) as submission:
                commands = [(number, named(submission.command))]
                outcomes = await self._proposals.propose_group(commands, client_id=request.client_id)
        except ApiError as error:
            if error.code is grpc.StatusCode.UNAVAILABLE:
                raise
            part.refuse(error.code, error.detail)
            return
        _take(part, outcomes[0])
        part.outcome.warnings.extend([submission.warning] if submission.warning else [])

    async def _warn(self, parts: Sequence[_Part]) -> None:
        """Add what nodes and limits could not hold; it is looked for once for jobs of a queue and a tenant that have
        equal task groups."""
        found: dict[tuple[tuple[TaskGroup, ...], str, str], list[str]] = {}
        for part in parts:
            if part.spec is None or not part.is_open:
                continue
            alike = part.spec.groups, part.spec.queue, part.spec.tenant
            if alike not in found:
                if len(found) >= _MAX_WARNED:
                    return
                found[alike] = self._warnings(part.spec)
            if not part.place % _TURN:
                await asyncio.sleep(0)
            part.outcome.warnings.extend(found[alike])


def _check_request(request: scheduler_pb2.SubmitJobsRequest) -> None:
    if not 0 < len(request.specs) <= MAX_BATCH:
        raise invalid(f"1 to {MAX_BATCH} jobs are submitted together; {len(request.specs)} were given")
    longest = MAX_NAME_LENGTH - len(f"/{MAX_BATCH}")
    if len(request.client_id) > MAX_NAME_LENGTH or len(request.request_id) > longest:
        raise invalid(f"client_id has at most {MAX_NAME_LENGTH} characters, request_id of a batch {longest}")


def _request_id(request: scheduler_pb2.SubmitJobsRequest, place: int) -> str:
    return f"{request.request_id}/{place}" if request.request_id else ""


def spec_of(message: types_pb2.JobSpec) -> JobSpec:
    """Return the spec of a message from outside. Raises ApiError."""
    size = message.ByteSize()
    if size > MAX_SPEC_BYTES + SPEC_OVERHEAD_BYTES:
        raise invalid(f"the job takes {size} bytes; at most {MAX_SPEC_BYTES} are allowed: keep data in files")
    return parsed(message, JobSpec)


def _state_problem(state: ClusterState, spec: JobSpec, before: dict[tuple[str, str], int]) -> str:
    """Return why this state would not take the job; `before`: tenants and names of the batch, with their places."""
    if (place := before.get((spec.tenant, spec.name))) is not None:
        return f"job {spec.name} is in the batch twice: the first is at place {place}"
    namesake = live_namesake(state, spec.tenant, spec.name)
    if namesake is not None and namesake.spec != spec:
        return f"job {spec.name} is live with another spec: cancel it first, or take another name"
    if late := check_begin_in_time(spec, state.clock_ms):
        return str(late)
    refused = submission_refusal(state, spec)
    return refused.detail if refused is not None else ""


def _all_or_none(parts: Sequence[_Part]) -> bool:
    """Return whether all parts may be submitted; if not, give those that are sound their outcome."""
    wrong = [part.place for part in parts if not part.is_open]
    for part in parts if wrong else ():
        if part.is_open:
            part.refuse(grpc.StatusCode.ABORTED, f"not submitted: the job at place {wrong[0]} was refused")
    return not wrong


def _groups(parts: Sequence[_Part], overhead: int) -> Iterator[list[_Part]]:
    """Yield the parts in their order, in groups that each fit in one entry; one with a deadline goes alone."""
    group: list[_Part] = []
    size = 0
    for part in parts:
        alone = _has_deadline(_known(part))
        if group and (alone or len(group) >= MAX_GROUP or size + part.size + overhead > BATCH_BYTES):
            yield group
            group, size = [], 0
        group.append(part)
        size += part.size + overhead
        if alone:
            yield group
            group, size = [], 0
    if group:
        yield group


def _has_deadline(spec: JobSpec) -> bool:
    return bool(not spec.cron and (spec.deadline_at_ms or spec.deadline_in_ms))


def _known(part: _Part) -> JobSpec:
    assert part.spec is not None, "only parts with a spec are submitted"
    return part.spec


def _take(part: _Part, outcome: Outcome) -> None:
    try:
        taken = accepted(outcome)
    except ApiError as error:
        part.refuse(error.code, error.detail)
        return
    part.outcome.job_id, part.outcome.unchanged = taken.subject, taken.unchanged
