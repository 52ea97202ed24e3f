"""Clients at the Unix socket of a master."""

from __future__ import annotations

import asyncio
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gosched.client import GoSchedClient, TlsFiles
from gosched.client.aio.client import AsyncGoSchedClient
from gosched.client.errors import Misused, Unreachable
from gosched.client.targets import endpoint_list
from gosched.core.records.access import AccessRole
from tests.master.harness import LIMIT_S, one_master

ME = f"unix:{pwd.getpwuid(os.geteuid()).pw_name}"


@pytest.fixture
def path() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="gs", dir="/tmp"))  # a short one
    yield folder / "m.sock"
    shutil.rmtree(folder)


def server(path: Path) -> dict[str, str]:
    return {"grpc_addr": "127.0.0.1:0", "http_addr": "127.0.0.1:0", "socket": str(path)}


def ctl(path: Path, *args: str) -> str:
    environment = {**os.environ, "GOSCHED_ENDPOINTS": f"unix:{path}", "HOME": str(path.parent)}
    done = subprocess.run(
        [sys.executable, "-m", "gosched.cli.main", *args],
        capture_output=True, text=True, timeout=LIMIT_S, env=environment,
    )  # fmt: skip
    return done.stdout + done.stderr


def test_both_clients_and_the_command_line_take_a_socket(path: Path) -> None:
    def with_threads() -> None:
        with GoSchedClient(f"unix:{path}", timeout_s=LIMIT_S) as client:
            assert client.check_access().user == ME
        with GoSchedClient([f"unix://{path}"], tls=TlsFiles(ca="/not/needed"), timeout_s=LIMIT_S) as client:
            job = client.submit({"name": "j", "run": "true"})
            assert client.get_job(job.id).job.user == ME

    async def story() -> None:
        async with one_master(server=server(path), access={"admins": [ME]}):
            async with AsyncGoSchedClient(f"unix:{path}", timeout_s=LIMIT_S) as client:
                assert (await client.check_access("grant")).allowed
            await asyncio.to_thread(with_threads)
            assert ME in await asyncio.to_thread(ctl, path, "access", "can-i", "grant")
            assert ME in await asyncio.to_thread(ctl, path, "job", "list", "-o", "wide")

    asyncio.run(story())


def test_a_token_at_a_socket_narrows_what_its_account_may(path: Path) -> None:
    def narrowed() -> None:
        with GoSchedClient(f"unix:{path}", timeout_s=LIMIT_S) as client:
            secret = client.create_token("t", AccessRole.VIEWER, lasts_ms=60_000).secret
        with GoSchedClient(f"unix:{path}", token=secret, timeout_s=LIMIT_S) as client:
            assert client.check_access("view").allowed
            assert not client.check_access("submit").allowed
            assert client.check_access().user == ME

    async def story() -> None:
        async with one_master(server=server(path), access={"admins": [ME]}):
            await asyncio.to_thread(narrowed)
            async with AsyncGoSchedClient(f"unix:{path}", token="gosched_wrong", timeout_s=LIMIT_S) as client:
                with pytest.raises(Exception, match="the token is not valid"):
                    await client.check_access()

    asyncio.run(story())


def test_a_socket_that_is_not_there_is_said_in_one_line(path: Path) -> None:
    with GoSchedClient(f"unix:{path}", timeout_s=LIMIT_S, fails_fast=True) as client:
        with pytest.raises(Unreachable) as failed:
            client.check_access()
        assert str(failed.value) == (
            f"no master can be reached: unix:{path}: there is no socket {path}: no master with it in server.socket"
            " runs here"
        )
    assert "there is no socket" in ctl(path, "job", "list")


def test_sockets_and_addresses_are_not_mixed_and_a_socket_has_an_absolute_path(path: Path) -> None:
    assert endpoint_list("unix:/a.sock, unix:///b.sock") == ["unix:/a.sock", "unix:/b.sock"]
    for bad in ("unix:", "unix:a.sock", "unix://a.sock", f"unix:/{'x' * 108}", "unix:/a\tb"):
        with pytest.raises(Misused, match="nor unix:/path of a socket"):
            endpoint_list([bad])
    with pytest.raises(Misused, match="name sockets alone, or addresses alone"):
        endpoint_list("unix:/a.sock,m1:9090")
    with GoSchedClient(f"unix:{path}") as client, pytest.raises(Misused, match="its own master is called alone"):
        client.master_health("m1:9090")
