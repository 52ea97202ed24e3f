"""10,000 connections that say nothing: they hold little memory, go by themselves, and keep no caller out."""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import Iterator

import psutil
import pytest

from gosched.master.http.connections import MAX_CONNECTIONS
from gosched.master.http.protocol import FIRST_REQUEST_S
from tests.master import http_client
from tests.master.harness import one_master

IDLE = 10_000
SPARE_FILES = 1_000
MAX_GROWTH_BYTES = 200 * 1024 * 1024


@pytest.fixture(autouse=True)
def files() -> Iterator[None]:
    """Let this process, which has both ends, open them all."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = IDLE + MAX_CONNECTIONS + SPARE_FILES
    assert hard == resource.RLIM_INFINITY or hard >= needed, f"needs {needed} open files: raise ulimit -Hn"
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, needed), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_ten_thousand_idle_connections_neither_hold_memory_nor_keep_others_out() -> None:
    async def story() -> None:
        async with one_master() as master:
            host, _, port = master.server.record.http_address.rpartition(":")
            me, longest = psutil.Process(os.getpid()), 0.0
            before, idle = me.memory_info().rss, []
            for count in range(IDLE):
                idle.append(await asyncio.open_connection(host, int(port)))
                if count % 1000 == 999:
                    started = time.monotonic()
                    assert (await http_client.get(master, "/api/v1/status")).status == 200
                    longest = max(longest, time.monotonic() - started)
            assert me.memory_info().rss - before < MAX_GROWTH_BYTES
            assert longest < 5
            async with asyncio.timeout(FIRST_REQUEST_S + 20):
                for reader, _ in idle:
                    assert await reader.read() == b""
            for _, writer in idle:
                writer.close()
            assert (await http_client.get(master, "/api/v1/status")).status == 200

    asyncio.run(story())
