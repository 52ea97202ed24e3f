"""The digest of a whole state, kept up to date by what changes.

Invariant: equal states have equal digests, in whatever order they came to be.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from hashlib import blake2b
from typing import Any

from gosched.core.digest import record_digest
from gosched.core.features import FeatureLevel
from gosched.core.records.job import Job
from gosched.core.state.footprint import Footprint
from gosched.core.state.spec_parts import without_parts
from gosched.core.state.tables import TABLE_OF, TABLES, Contents

_MODULUS = 1 << 128
_MAX_CHANGED = 2_000  # digested at once: some 10 ms

Place = tuple[str, str]  # table, key


class StateDigest:
    """The sum of the digests of all records. Costs nothing until it is asked for."""

    def __init__(self) -> None:
        self._sum = 0
        self._digests: dict[Place, int] = {}
        self._changed: dict[Place, None] | None = None  # since the last digest; None: it was never asked for

    def forget(self) -> None:
        """Begin anew: the level has changed, and with it the digest of every record."""
        self._sum, self._digests, self._changed = 0, {}, None

    def touch(self, contents: Contents, footprint: Footprint, table: str, key: str) -> None:
        """Note that a record has changed."""
        if self._changed is not None:
            self._changed[(table, key)] = None
            if len(self._changed) > _MAX_CHANGED:
                self._bring_up(contents, footprint)

    def of(self, contents: Contents, footprint: Footprint) -> str:
        """Return the digest. The first call costs what there is, the others what has changed since."""
        self._bring_up(contents, footprint)
        values = (contents.revision, contents.clock_ms, contents.epoch, contents.next_sequence, self._sum)
        text = f"{' '.join(map(str, values))} {contents.leader}"
        if contents.feature_level > FeatureLevel.FIRST:  # the release before knows neither
            text += f" {contents.feature_level} {contents.cluster_id} {contents.task_key}"
        if contents.requests_from_ms:
            text += f" {contents.requests_from_ms}"
        if contents.configuration is not None:
            text += f" {record_digest('configuration', '', contents.configuration)}"
        if contents.lineage:
            text += f" {' '.join(contents.lineage)}"
        return blake2b(text.encode(), digest_size=16).hexdigest()

    def _bring_up(self, contents: Contents, footprint: Footprint) -> None:
        places: Iterable[Place] = _places(contents) if self._changed is None else self._changed
        for place in places:
            table, key = place
            record = TABLE_OF[table].get(contents, key)
            old = self._digests.pop(place, 0)
            new = 0
            if record is not None:
                new = self._digests[place] = _digest_of(contents.feature_level, footprint, place, record)
            self._sum = (self._sum + new - old) % _MODULUS
        self._changed = {}


def _digest_of(level: int, footprint: Footprint, place: Place, record: Any) -> int:
    """Return the digest of a record. From FeatureLevel.BOUNDED on a part that many jobs share is digested once."""
    if level >= FeatureLevel.BOUNDED and isinstance(record, Job):
        return record_digest(*place, (without_parts(record), footprint.part_digests(record.id)))
    return record_digest(*place, record)


def _places(contents: Contents) -> Iterator[Place]:
    for table in TABLES:
        for key, _ in table.items(contents):
            yield table.name, key
