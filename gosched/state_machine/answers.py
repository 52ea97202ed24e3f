"""Answers: outcomes that are remembered, so that a request that is repeated is not carried out again.

Invariant: bounded by client, by clients and by bytes; the oldest are forgotten first, on all masters alike.
"""

from __future__ import annotations

from gosched.core.commands.command import Command
from gosched.core.features import FeatureLevel
from gosched.core.limits import FEW_ANSWERS_PER_CLIENT, MAX_ANSWER_BYTES, MAX_ANSWERS_PER_CLIENT, MAX_CLIENTS_REMEMBERED
from gosched.core.outcome import Accepted, Answer, Code, Outcome, Rejected
from gosched.core.state.cluster_state import ClusterState


def remember(state: ClusterState, command: Command, outcome: Outcome) -> None:
    """Keep the outcome of a command for repeats of its request."""
    keep(state, _answer(command, outcome))


def keep(state: ClusterState, answer: Answer) -> None:
    """Keep an answer, and forget what is beyond the bounds: the oldest ones of its client, all of the client that asked
    longest ago, and where all together are too large, the oldest of that client."""
    state.put_answer(answer)
    is_bounded = state.feature_level >= FeatureLevel.BOUNDED
    if len(state.answers[answer.client_id]) > (MAX_ANSWERS_PER_CLIENT if is_bounded else FEW_ANSWERS_PER_CLIENT):
        state.drop_oldest_answer(answer.client_id)
    if len(state.answers) > MAX_CLIENTS_REMEMBERED:
        client = next(iter(state.answers))
        for _ in range(len(state.answers[client])):
            state.drop_oldest_answer(client)
    if is_bounded:
        for _ in range(MAX_ANSWERS_PER_CLIENT):  # at once; one is enough but after the level was raised
            if state.footprint.tables["answers"] <= MAX_ANSWER_BYTES:
                break
            state.drop_oldest_answer(next(iter(state.answers)))


def outcome_of(answer: Answer) -> Outcome:
    """Return the outcome that was remembered."""
    if answer.code is Code.UNSPECIFIED:
        return Accepted(subject=answer.subject, unchanged=answer.unchanged)
    return Rejected(code=answer.code, detail=answer.detail)


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
