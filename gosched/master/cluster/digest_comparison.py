"""Compares the masters' states: each master keeps digests of its own, and the leader compares them.

Once a minute of the state's clock, at the same entry of the log on every master, each takes the digest of one part of
the tables; the parts take turns. So a check costs the same however large the state is, and nothing enters the log.

Invariant: only digests of the same part at the same revision are compared.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import islice

import grpc
import structlog

from gosched.core.digest import record_digest
from gosched.core.records.job import Job
from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.spec_parts import without_parts
from gosched.core.state.tables import TABLES
from gosched.master.base.channels import Channels
from gosched.master.base.leadership import Leadership
from gosched.replication.interface import AppliedBatch, Replication
from gosched.wire.v1 import cluster_pb2, cluster_pb2_grpc

PERIOD_MS = 60_000
COMPARE_S = 60.0
CALL_TIMEOUT_S = 3.0
PART_RECORDS = 20_000  # some 0.2 s of a thread
KEPT = 16
MAX_LAG = 100  # entries; a master that catches up takes no digests

log = structlog.get_logger()

_Place = tuple[str, str, object]  # table, key, record


@dataclass(frozen=True, slots=True, kw_only=True)
class StateDigest:
    revision: int
    part: int
    digest: str


class StateDigests:
    """The digests of this master, the newest KEPT."""

    def __init__(self, replication: Replication) -> None:
        self._replication = replication
        self._period = 0
        self._kept: list[StateDigest] = []
        self._working: asyncio.Task[None] | None = None
        replication.follow(self._on_batch)

    def kept(self) -> Sequence[StateDigest]:
        """Return the digests, the oldest first."""
        return tuple(self._kept)

    def _on_batch(self, batch: AppliedBatch) -> None:
        state = self._replication.state
        before, self._period = self._period, state.clock_ms // PERIOD_MS
        is_behind = self._replication.role.commit_index - batch.index > MAX_LAG
        if batch.reset or self._period == before or is_behind or (self._working and not self._working.done()):
            return
        part = self._period % part_count(state)
        records = [*_part(state, part)]
        scalars = f"{state.revision} {state.clock_ms} {state.epoch} {state.next_sequence} {state.leader}"
        scalars += f" {state.feature_level} {state.cluster_id} {state.task_key} {' '.join(state.lineage)}"
        scalars += f" {state.requests_from_ms}" if state.requests_from_ms else ""
        self._working = asyncio.ensure_future(self._take(state.revision, part, scalars, records))

    async def _take(self, revision: int, part: int, scalars: str, records: list[_Place]) -> None:
        digest = await asyncio.to_thread(_digest, scalars, records)
        self._kept = [*self._kept, StateDigest(revision=revision, part=part, digest=digest)][-KEPT:]


class DigestComparison:
    """The leader's comparison. `found` is called for each master in another state than most."""

    def __init__(
        self,
        replication: Replication,
        leadership: Leadership,
        digests: StateDigests,
        masters: Channels,
        found: Callable[[], None],
    ) -> None:
        self._replication = replication
        self._leadership = leadership
        self._digests = digests
        self._masters = masters
        self._found = found
        self._compared = 0  # the newest revision that was

    async def run(self) -> None:
        """Compare now and then while this master leads, until it is cancelled."""
        while True:
            await asyncio.sleep(COMPARE_S)
            if self._leadership.epoch:
                await self.compare()

    async def compare(self) -> None:
        me = self._replication.member_id
        others = [master for master in self._replication.state.masters.values() if master.id != me]
        answers = await asyncio.gather(*(self._ask(master.grpc_address) for master in others))
        seen: dict[tuple[int, int], dict[str, str]] = {}  # (revision, part) -> master -> digest
        for master, digests in ((me, self._digests.kept()), *zip([m.id for m in others], answers, strict=True)):
            for one in digests:
                seen.setdefault((one.revision, one.part), {})[master] = one.digest
        for (revision, part), by_master in sorted(seen.items()):
            if revision > self._compared and len(by_master) > 1:
                self._compared = revision
                self._report(revision, part, by_master)

    async def _ask(self, address: str) -> Sequence[StateDigest]:
        stub = cluster_pb2_grpc.ClusterServiceStub(self._masters.to(address))
        try:
            answer = await stub.GetStateDigests(cluster_pb2.GetStateDigestsRequest(), timeout=CALL_TIMEOUT_S)
        except grpc.aio.AioRpcError:  # it is away, or of the release before
            return ()
        return [StateDigest(revision=one.revision, part=one.part, digest=one.digest) for one in answer.digests]

    def _report(self, revision: int, part: int, by_master: Mapping[str, str]) -> None:
        (usual, count), *_ = Counter(by_master.values()).most_common()
        odd = sorted(master for master, digest in by_master.items() if digest != usual)
        if not odd:
            return
        for _ in odd:
            self._found()
        whose = ", ".join(odd) if count > len(odd) else f"one of {', '.join(sorted(by_master))}"
        log.error(
            "masters hold different states: a bug, please report it with their data directories. To mend it, stop "
            "the odd master, move its data directory away and start it with `bootstrap: false`",
            odd=whose,
            revision=revision,
            part=part,
        )


def part_count(state: ClusterState) -> int:
    """Return into how many parts the tables are divided."""
    records = sum(len(part) for table in TABLES for _, part in table.parts(state))
    return max(1, -(-records // PART_RECORDS))


def _part(state: ClusterState, number: int) -> Iterator[_Place]:
    """Yield the records at these positions of all tables; the order of a table is the same on every master."""
    skip, left = number * PART_RECORDS, PART_RECORDS
    for name, records in [part for table in TABLES for part in table.parts(state)]:
        if skip >= len(records):
            skip -= len(records)
            continue
        for key, record in islice(records.items(), skip, skip + left):
            # What many jobs share is digested once, not with each of them.
            shared = state.footprint.part_digests(key) if isinstance(record, Job) else []
            yield name, key, (without_parts(record), shared) if isinstance(record, Job) else record
            left -= 1
        if not left:
            return
        skip = 0


def _digest(scalars: str, records: list[_Place]) -> str:
    total = sum(record_digest(*place) for place in records) % (1 << 128)
    return blake2b(f"{scalars} {total}".encode(), digest_size=16).hexdigest()
