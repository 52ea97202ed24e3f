"""The leader's notes of why jobs wait, which it puts into the log: so each master's history has them.

A job is noted once its reason is another than the one that was noted last, and has been the same for a second: one that
starts at once never is, and reasons that change back and forth within a cycle or two make no entries.

Invariant: one command at most each NOTE_S, of MAX_NOTES jobs at most; the others are noted after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping

import structlog

from gosched.core.commands.jobs import NoteWaitReasons, WaitNote
from gosched.core.features import FeatureLevel
from gosched.core.outcome import Rejected
from gosched.master.base.errors import ApiError
from gosched.master.base.proposals import Proposals
from gosched.master.history.history import History
from gosched.replication.interface import Replication
from gosched.scheduling import Explanation

NOTE_S = 1.0
MAX_NOTES = 500
MAX_MESSAGE = 300  # characters
LOOKS_AT_ONCE = 2_000  # jobs, before the loop serves others

log = structlog.get_logger()

Explanations = Mapping[str, Explanation]


class WaitNotes:
    def __init__(
        self,
        replication: Replication,
        proposals: Proposals,
        explanations: Callable[[], Explanations],
        history: History,
    ) -> None:
        self._replication = replication
        self._proposals = proposals
        self._explanations = explanations
        self._history = history

    async def run(self, epoch: int) -> None:
        """Note what changes, until it is cancelled."""
        before: dict[str, str] = {}
        while True:
            await asyncio.sleep(NOTE_S)
            if self._replication.state.feature_level < FeatureLevel.BOUNDED:
                continue
            explanations = self._explanations()
            codes = await self._not_noted(explanations)
            steady = [job_id for job_id, code in codes.items() if before.get(job_id) == code]
            before = codes
            if steady:
                await self._propose(epoch, [_note(job_id, explanations[job_id]) for job_id in steady[:MAX_NOTES]])

    async def _not_noted(self, explanations: Explanations) -> dict[str, str]:
        """Return the jobs whose reason is another than the one that was noted, with their codes."""
        found: dict[str, str] = {}
        reasons = self._history.reasons
        for number, (job_id, why) in enumerate(explanations.items()):
            noted = reasons.get(job_id)
            if noted is None or noted.code != why.code:
                found[job_id] = why.code
            if number % LOOKS_AT_ONCE == LOOKS_AT_ONCE - 1:
                await asyncio.sleep(0)
        return found

    async def _propose(self, epoch: int, notes: list[WaitNote]) -> None:
        try:
            outcome = await self._proposals.propose(NoteWaitReasons(notes=tuple(notes)), epoch=epoch)
        except ApiError as error:
            log.info("wait reasons are not noted", why=error.detail)
            return
        if isinstance(outcome, Rejected):
            log.warning("wait reasons are not noted", why=outcome.detail)


def _note(job_id: str, why: Explanation) -> WaitNote:
    return WaitNote(job_id=job_id, code=why.code.value, message=why.message[:MAX_MESSAGE])
