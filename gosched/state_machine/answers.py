"""Answers: outcomes that are remembered, so that a request that is repeated is not carried out again.

A request is remembered for ANSWERS_KEPT_MS of the state's clock, whatever others ask meanwhile. All that are remembered
have a bound in bytes, and of it a user may hold as much as it leaves free (as tenants do, in size_limits.py): one that
holds more is refused new requests until its oldest are forgotten, and never loses a young one.

An id that says when it was made is refused once it is older than MAX_REQUEST_AGE_MS, or further ahead of the clock than
MAX_REQUEST_AHEAD_MS, unless it is remembered.

Invariant: a request whose id says when it was made is carried out once at most, however late it is repeated; one whose
id does not say it, once within the time for which it is remembered.

Below FeatureLevel.BOUNDED answers are bounded by client and by clients, and the oldest are forgotten first.
"""

from __future__ import annotations

from gosched.core.commands.command import Command
from gosched.core.features import FeatureLevel
from gosched.core.limits import (
    ANSWERS_KEPT_MS,
    FEW_ANSWERS_PER_CLIENT,
    MAX_ANSWERED_BYTES,
    MAX_CLIENTS_REMEMBERED,
    MAX_CLOCK_STEP_MS,
    MAX_REQUEST_AGE_MS,
    MAX_REQUEST_AHEAD_MS,
)
from gosched.core.outcome import Accepted, Answer, Answered, Code, Outcome, Rejected
from gosched.core.replace import replace
from gosched.core.request_ids import asker_of, made_at_ms, request_key
from gosched.core.state.cluster_state import ClusterState

FORGOTTEN_AT_ONCE = 16  # by one request, which adds one
TAKEN_OVER = 16_384  # answers of the level before: more than a batch of jobs has

_MIB = 1 << 20


def refusal(state: ClusterState, command: Command) -> Rejected | None:
    """Return why a request that is not remembered may not be carried out, whatever it asks for; None: it may. The
    refusal is not remembered."""
    if state.feature_level < FeatureLevel.BOUNDED:
        return None
    made_ms = made_at_ms(command.request_id)
    if made_ms is not None:
        first_ms = max(state.clock_ms - MAX_REQUEST_AGE_MS, state.requests_from_ms)
        if not first_ms <= made_ms <= state.clock_ms + MAX_REQUEST_AHEAD_MS:
            return Rejected(code=Code.OUT_OF_TIME, detail=_out_of_time(state.clock_ms - made_ms))
    _forget_old(state)
    held = state.footprint.answered.get(asker_of(command.client_id), 0)
    free = MAX_ANSWERED_BYTES - state.footprint.tables.get("answered", 0)
    if held < free:
        return None
    detail = (
        f"what this user has asked for in the last {ANSWERS_KEPT_MS // 60_000} minutes takes {held // _MIB} MiB of what"
        f" the cluster remembers for repeats, {max(free, 0) // _MIB} MiB of {MAX_ANSWERED_BYTES // _MIB} MiB are left,"
        " and a user may hold as much as it leaves: ask less often, and repeat this later"
    )
    return Rejected(code=Code.EXHAUSTED, detail=detail)


def remember(state: ClusterState, command: Command, outcome: Outcome) -> None:
    """Keep the outcome of a command for repeats of its request."""
    if state.feature_level >= FeatureLevel.BOUNDED:
        state.put_answered(_answered(state, _answer(command, outcome)))
    else:
        keep(state, _answer(command, outcome))


def keep(state: ClusterState, answer: Answer) -> None:
    """Keep an answer below FeatureLevel.BOUNDED, and forget what is beyond the bounds: the oldest ones of its client,
    and all of the client that asked longest ago."""
    state.put_answer(answer)
    if len(state.answers[answer.client_id]) > FEW_ANSWERS_PER_CLIENT:
        state.drop_oldest_answer(answer.client_id)
    if len(state.answers) > MAX_CLIENTS_REMEMBERED:
        client = next(iter(state.answers))
        for _ in range(len(state.answers[client])):
            state.drop_oldest_answer(client)


def take_over(state: ClusterState, before: list[Answer]) -> None:
    """Remember the newest answers of the level before in the way of this one. It had forgotten others."""
    state.refuse_requests_before(state.clock_ms if before else 0)
    for answer in before[-TAKEN_OVER:]:
        answered = _answered(state, answer)
        if answered.key not in state.answered:
            state.put_answered(answered)


def follow_back(state: ClusterState, from_ms: int, to_ms: int) -> None:
    """Follow the clock that is set back by some minutes: what was forgotten stays too old, and what is remembered stays
    so until its ids are. After a step that is larger than these times it is so for what is not repeated later than
    they last."""
    state.refuse_requests_before(min(from_ms - MAX_REQUEST_AGE_MS, to_ms))
    latest_ms = to_ms + ANSWERS_KEPT_MS + MAX_CLOCK_STEP_MS
    for key, answered in state.answered.items():
        if answered.until_ms > latest_ms:
            state.put_moments("answered", key, replace(answered, until_ms=latest_ms))


def outcome_of(answer: Answer | Answered) -> Outcome:
    """Return the outcome that was remembered."""
    if answer.code is Code.UNSPECIFIED:
        return Accepted(subject=answer.subject, unchanged=answer.unchanged)
    return Rejected(code=answer.code, detail=answer.detail)


def _forget_old(state: ClusterState) -> None:
    for _ in range(FORGOTTEN_AT_ONCE):
        oldest = state.answered.oldest()
        if oldest is None or oldest.until_ms > state.clock_ms:
            break
        state.drop_answered(oldest)


def _out_of_time(age_ms: int) -> str:
    if age_ms < 0:
        return (
            f"by its id the request was made {-age_ms // 1000} s later than now, by the cluster's clock; at most"
            f" {MAX_REQUEST_AHEAD_MS // 1000} s are allowed: set this machine's clock, and ask with a new id"
        )
    return (
        f"by its id the request was made {age_ms // 1000} s ago, by the cluster's clock, and is not remembered: it was"
        f" not carried out now, perhaps before: look, then ask with a new id, which is {MAX_REQUEST_AGE_MS // 1000} s"
        " old at most"
    )


def _answer(command: Command, outcome: Outcome) -> Answer:
    # Refusals of single gangs are not kept: plans carry no request id.
    if isinstance(outcome, Rejected):
        return Answer(
            client_id=command.client_id, request_id=command.request_id, code=outcome.code, detail=outcome.detail
        )
    return Answer(
        client_id=command.client_id,
        request_id=command.request_id,
        subject=outcome.subject,
        unchanged=outcome.unchanged,
    )


def _answered(state: ClusterState, answer: Answer) -> Answered:
    return Answered(
        key=request_key(answer.client_id, answer.request_id),
        user=asker_of(answer.client_id),
        until_ms=state.clock_ms + ANSWERS_KEPT_MS,
        code=answer.code,
        detail=answer.detail,
        subject=answer.subject,
        unchanged=answer.unchanged,
    )
