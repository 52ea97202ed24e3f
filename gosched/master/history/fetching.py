"""What the history of a master lacks is fetched from another one: after its file was lost, or while it was away for so
long that a snapshot replaced its state.

Invariant: rows are the same on each master, so those that are there already are met again and stay as they are; and
what is fetched counts as there only once all of it is.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator

import grpc
import structlog

from gosched.master.base.channels import STREAMS, Channels
from gosched.master.base.errors import unavailable
from gosched.master.history.database import Database
from gosched.master.history.rows import BY_NAME, TABLES, Row, Table
from gosched.master.history.store import HistoryStore
from gosched.replication.interface import Replication
from gosched.wire.v1 import history_pb2, history_pb2_grpc

ROWS_AT_ONCE = 2_000
LOOK_S = 1.0  # between two looks whether something is missing
AGAIN_S, MAX_AGAIN_S = 15.0, 600.0  # after some master could not be asked; twice as long each time
FETCH_S = 300.0  # for all of it

log = structlog.get_logger()


class HistoryFetch:
    """Fetches while something is missing."""

    def __init__(self, replication: Replication, store: HistoryStore, masters: Channels) -> None:
        self._replication = replication
        self._store = store
        self._masters = masters

    async def run(self) -> None:
        """Look now and then, until it is cancelled."""
        again_s = AGAIN_S
        while True:
            await asyncio.sleep(LOOK_S)
            if self._store.span.missing_after >= 0 and self._replication.role.leader:
                self._store.is_fetching = True
                try:
                    asked = await self._fetch()
                finally:
                    self._store.is_fetching = False
                if not asked:
                    await asyncio.sleep(again_s)
                again_s = AGAIN_S if asked else min(2 * again_s, MAX_AGAIN_S)

    async def _fetch(self) -> bool:
        """Ask one master after the other until one has all that is missing. Return whether none of them is left to be
        asked again."""
        me, span = self._replication.member_id, self._store.span
        wanted_after, before = span.missing_after, span.first
        others = [master for master in self._replication.state.masters.values() if master.id != me]
        best, failed = 0, False
        for master in others:
            try:
                async with asyncio.timeout(FETCH_S):
                    first = await self._fetch_from(master.grpc_address, wanted_after, before)
            except (grpc.aio.AioRpcError, TimeoutError, sqlite3.Error, ValueError) as error:
                log.info("the history cannot be fetched from a master", master=master.id, why=_line(error))
                failed = failed or not _is_older(error)
                continue
            best = min(best or first, first)
            if first <= wanted_after + 1:
                break
        complete = 0 < best <= wanted_after + 1
        if not complete and failed:
            return False  # one that is away now may have more
        if self._store.span.missing_after == wanted_after and self._store.span.first == before:
            await self._store.fetched(best or before)
            log.info("the history is complete again", from_revision=self._store.span.first)
        return True

    async def _fetch_from(self, address: str, after: int, before: int) -> int:
        """Take all rows between two revisions; return from which one on the other master's events are complete."""
        stub = history_pb2_grpc.HistoryServiceStub(self._masters.to(address, STREAMS))
        request = history_pb2.StreamHistoryRequest(after=after, before=before)
        first = 0
        async for message in stub.StreamHistory(request):
            first = first or message.first
            table = BY_NAME.get(message.table)
            if table is not None:
                await self._store.insert(table, message.columns, json.loads(message.rows))
        if not first:
            raise ValueError("it sent nothing")
        return first


async def sent_rows(store: HistoryStore, after: int, before: int) -> AsyncIterator[history_pb2.HistoryRows]:
    """Yield what this master has between two revisions, for another one. Raises ApiError where it is behind."""
    if store.written < before - 1:
        raise unavailable(f"this master's history is at revision {store.written}; ask another one")
    yield history_pb2.HistoryRows(first=store.span.first)
    for table in TABLES:
        place: Row = ()
        while True:
            rows = await store.read(lambda database, t=table, p=place: _rows(database, t, p, after, before))  # type: ignore[misc]
            if rows:
                place = rows[-1][: table.key]
                yield history_pb2.HistoryRows(table=table.name, columns=table.names, rows=json.dumps(rows).encode())
            if len(rows) < ROWS_AT_ONCE:
                break


def _rows(database: Database, table: Table, place: Row, after: int, before: int) -> list[Row]:
    """Return the next rows in the order of their keys."""
    keys = ", ".join(table.key_names)
    beyond = f"({keys}) > ({', '.join('?' * len(place))}) AND " if place else ""
    query = (
        f"SELECT {', '.join(table.names)} FROM {table.name} WHERE {beyond}revision > ? AND revision < ?"
        f" ORDER BY {keys} LIMIT ?"
    )
    return database.read(query, (*place, after, before, ROWS_AT_ONCE))


def _is_older(error: Exception) -> bool:
    """Return whether the master is of a release that keeps no history."""
    return isinstance(error, grpc.aio.AioRpcError) and error.code() is grpc.StatusCode.UNIMPLEMENTED


def _line(error: Exception) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return str(error.details() or error.code().name)
    return str(error) or type(error).__name__
