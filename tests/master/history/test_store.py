"""The store: bounds, gaps, broken files and full disks."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from gosched.api.history import HistoryEvent
from gosched.master.history.database import SET_ASIDE, Bounds, Database
from gosched.master.history.derive import Derived
from gosched.master.history.queries import EventFilter, events_after, newest_events
from gosched.master.history.span import Span
from gosched.master.history.store import HistoryStore
from gosched.observe.faults import Faults

BOUNDS = Bounds(events=1_000, tasks=1_000, jobs=1_000, size=1 << 30)
ANY = EventFilter()


def one(revision: int, events: int = 1, message: str = "") -> Derived:
    made = [HistoryEvent(revision=revision, number=n, at_ms=1, kind="job_held", message=message) for n in range(events)]
    return Derived(revision, 1, tuple(made))


async def opened(path: Path, bounds: Bounds = BOUNDS) -> HistoryStore:
    store = HistoryStore(path / "history.db", bounds, Faults())
    await store.start()
    return store


async def revisions(store: HistoryStore) -> list[int]:
    await store.until_written(store.span.last)
    found = await store.read(lambda database: newest_events(database, ANY, 1 << 60, 10_000))
    return [event.revision for event in found.events]


def test_what_is_put_twice_is_there_once_and_stays_over_a_restart(tmp_path: Path) -> None:
    async def story() -> None:
        store = await opened(tmp_path)
        for revision in (1, 2, 2, 1, 3):
            store.put(revision, one(revision))
        store.put(4, None)
        assert await revisions(store) == [1, 2, 3]
        await store.stop()
        again = await opened(tmp_path)
        assert (again.span, await revisions(again)) == (Span(first=1, last=4), [1, 2, 3])
        await again.stop()

    asyncio.run(story())


def test_the_oldest_beyond_the_bound_go_and_the_span_says_from_where_on_it_is_complete(tmp_path: Path) -> None:
    async def story() -> None:
        store = await opened(tmp_path)
        for revision in range(1, 1_301):
            store.put(revision, one(revision))
        kept = await revisions(store)
        await store.until_written(1_300)
        assert 800 <= len(kept) <= 1_000
        assert (kept[-1], store.span.first) == (1_300, kept[0])
        small = Bounds(events=1_000, tasks=1_000, jobs=1_000, size=200_000)
        await store.stop()
        store = await opened(tmp_path, small)
        for revision in range(1_301, 1_401):
            store.put(revision, one(revision, message="x" * 2_000))
            await store.until_written(revision)
        assert len(await revisions(store)) < 300, "bounded by bytes, too"
        await store.stop()

    asyncio.run(story())


def test_a_page_never_splits_a_revision(tmp_path: Path) -> None:
    async def story() -> None:
        store = await opened(tmp_path)
        for revision, events in ((1, 2), (2, 3), (3, 1)):
            store.put(revision, one(revision, events))
        await store.until_written(3)

        def page(after: int, size: int) -> Any:
            return lambda database: events_after(database, ANY, after, 3, size)

        found = await store.read(page(0, 3))
        assert ([e.revision for e in found.events], found.revision, found.more) == ([1, 1], 1, True)
        found = await store.read(page(1, 1))
        assert ([e.revision for e in found.events], found.revision, found.more) == ([2, 2, 2], 2, True)
        found = await store.read(page(2, 5))
        assert ([e.revision for e in found.events], found.revision, found.more) == ([3], 3, False)
        newest = await store.read(lambda database: newest_events(database, ANY, 3, 2))
        assert [e.revision for e in newest.events] == [3]
        await store.stop()

    asyncio.run(story())


@pytest.mark.parametrize("content", [b"no database at all, but long enough to be one" * 100, b""])
def test_a_broken_file_is_set_aside_and_an_empty_one_is_used(tmp_path: Path, content: bytes) -> None:
    async def story() -> None:
        (tmp_path / "history.db").write_bytes(content)
        store = await opened(tmp_path)
        store.put(1, one(1))
        assert await revisions(store) == [1]
        await store.stop()
        assert (tmp_path / f"history.db{SET_ASIDE}").exists() is bool(content)

    asyncio.run(story())


def test_a_database_of_something_else_is_set_aside(tmp_path: Path) -> None:
    async def story() -> None:
        with sqlite3.connect(tmp_path / "history.db") as foreign:
            foreign.execute("CREATE TABLE events (id INTEGER)")
        foreign.close()
        store = await opened(tmp_path)
        store.put(1, one(1))
        assert await revisions(store) == [1]
        await store.stop()
        assert (tmp_path / f"history.db{SET_ASIDE}").exists()

    asyncio.run(story())


def test_without_a_directory_to_write_in_it_is_kept_in_memory(tmp_path: Path) -> None:
    async def story() -> None:
        store = await opened(tmp_path / "nowhere")
        store.put(1, one(1))
        assert await revisions(store) == [1]
        await store.stop()

    asyncio.run(story())


def test_a_full_disk_leaves_a_gap_that_is_said_and_the_store_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        store = await opened(tmp_path)
        store.put(1, one(1))
        await store.until_written(1)
        write = Database.write

        def full(*args: Any) -> int:
            raise sqlite3.OperationalError("database or disk is full")

        monkeypatch.setattr(Database, "write", full)
        store.put(2, one(2))
        await store.until_written(2)
        assert (store.span.first, store.span.missing_after) == (3, 1)
        monkeypatch.setattr(Database, "write", write)
        store.put(3, one(3))
        assert await revisions(store) == [1, 3]
        assert store.span == Span(first=3, last=3, missing_after=1, first_before=1)
        await store.stop()

    asyncio.run(story())


def test_a_file_that_breaks_while_it_is_written_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        store = await opened(tmp_path)
        write = Database.write

        def broken(*args: Any) -> int:
            monkeypatch.setattr(Database, "write", write)
            raise sqlite3.DatabaseError("database disk image is malformed")

        monkeypatch.setattr(Database, "write", broken)
        store.put(1, one(1))
        await store.until_written(1)
        store.put(2, one(2))
        assert await revisions(store) == [2]
        assert store.span == Span(first=2, last=2, missing_after=0, first_before=1)
        await store.stop()

    asyncio.run(story())


def test_a_span_knows_what_is_missing_and_is_whole_again_once_that_is_fetched() -> None:
    span = Span(first=5, last=10)
    span.lose(10, 20)
    span.last = 25
    assert (span.first, span.missing_after) == (21, 10)
    span.lose(25, 30)
    span.last = 30
    assert (span.first, span.missing_after, span.first_before) == (31, 10, 5)
    span.fetched(first=2)
    assert (span.first, span.missing_after) == (5, -1)
    span.lose(30, 40)
    span.fetched(first=35)
    assert (span.first, span.missing_after) == (35, -1), "the other one does not have all"
    assert Span.from_json(span.to_json()) == span
    with pytest.raises(ValueError, match="unexpected"):
        Span.from_json('{"later": 1}')
