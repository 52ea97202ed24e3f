"""The archive in a directory; an S3 server is asked in tests/integration."""

from __future__ import annotations

import asyncio
import builtins
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from gosched.archive.calls import BoundedCalls, Busy
from gosched.archive.members import pack
from gosched.archive.store import ArchiveError, LogArchive, NotArchived, object_key
from gosched.config.archive_model import Archive


def archive_in(path: Path) -> LogArchive:
    return LogArchive(Archive(url=f"file://{path}"))


async def text_of(archive: LogArchive, key: str) -> bytes:
    return b"".join([piece.data async for piece in archive.read(key)])


def packed(path: Path, data: bytes) -> Path:
    with path.open("wb") as target:
        pack([(f"stdout-{0:020d}.log", BytesIO(data))], target)
    return path


def test_what_was_stored_is_read_and_what_was_not_is_known(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "shared").mkdir()
        archive = archive_in(tmp_path / "shared")
        key = object_key("c1", "job.7/main/0.2-1", "stdout")
        assert key == "c1/job.7/main/0.2-1.stdout.gz"
        await archive.put(key, packed(tmp_path / "x", b"first"))
        await archive.put(key, packed(tmp_path / "x", b"second" * 100_000))
        assert await text_of(archive, key) == b"second" * 100_000
        with pytest.raises(NotArchived):
            await text_of(archive, object_key("c1", "job.7/main/0.3", "stdout"))

    asyncio.run(story())


def test_many_readers_at_once_wait_for_each_other(tmp_path: Path) -> None:
    async def story() -> None:
        archive, key = archive_in(tmp_path), object_key("c1", "j/m/0.1", "stdout")
        await archive.put(key, packed(tmp_path / "x", b"text"))
        assert await asyncio.gather(*[text_of(archive, key) for _ in range(200)]) == [b"text"] * 200

    asyncio.run(story())


def test_old_logs_of_the_cluster_go_and_no_others(tmp_path: Path) -> None:
    async def story() -> None:
        archive = archive_in(tmp_path)
        for cluster in ("c1", "c2"):
            await archive.put(object_key(cluster, "j/m/0.1", "stdout"), packed(tmp_path / "x", b"text"))
        now = datetime.now(UTC)
        assert await archive.delete_older("c1", now - timedelta(hours=1)) == 0
        assert await archive.delete_older("c1", now + timedelta(hours=1)) == 1
        assert await text_of(archive, object_key("c2", "j/m/0.1", "stdout")) == b"text"
        with pytest.raises(NotArchived):
            await text_of(archive, object_key("c1", "j/m/0.1", "stdout"))

    asyncio.run(story())


def test_a_directory_that_is_not_there_yet_is_an_error_of_the_call_and_not_of_the_start(tmp_path: Path) -> None:
    async def story() -> None:
        archive = archive_in(tmp_path / "later")
        file = packed(tmp_path / "x", b"text")
        with pytest.raises(ArchiveError, match=r"there is no directory .*later: mount or make it"):
            await archive.put("c1/j/m/0.1.stdout.gz", file)
        (tmp_path / "later").mkdir()
        await archive.put("c1/j/m/0.1.stdout.gz", file)
        (tmp_path / "later/c1/j/m/0.1.stdout.gz").write_bytes(b"damaged" * 100)
        with pytest.raises(ArchiveError, match="not a log that an agent wrote"):
            await text_of(archive, "c1/j/m/0.1.stdout.gz")

    asyncio.run(story())


@pytest.mark.parametrize("allocation_id", ["../../etc/passwd", "j//0.1", "j/./0.1", "", "j/main/0.1\n"])
def test_no_id_names_an_object_elsewhere(allocation_id: str) -> None:
    with pytest.raises(ArchiveError):
        object_key("c1", allocation_id, "stdout")


def test_who_lacks_the_extra_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., Any] = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] == "obstore":
            raise ModuleNotFoundError("No module named 'obstore'", name="obstore")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ArchiveError, match=r"obstore is not installed.*pip install 'gosched\[archive\]'"):
        LogArchive(Archive(url="s3://bucket"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (None, "No such file"),
        ("nonsense", "expected \\[default\\]"),
        ("[default]\naws_access_key_id = a\n", "expected"),
        ("[default]\naws_access_key_id = a\naws_secret_access_key = b\n", "can use the secret in"),
    ],
)
def test_a_bad_file_of_credentials_is_an_error_that_names_it(tmp_path: Path, text: str | None, words: str) -> None:
    file = tmp_path / "credentials"
    if text is not None:
        file.touch(mode=0o644 if "can use" in words else 0o600)
        file.write_text(text)
    archive = LogArchive(Archive(url="s3://bucket", credentials_file=str(file)))
    with pytest.raises(ArchiveError, match=f"{file}.*{words}|{words}.*{file}"):
        asyncio.run(archive.put("c1/j/m/0.1.stdout.gz", tmp_path))


def test_a_call_that_hangs_is_given_up_and_counts_until_it_returns() -> None:
    async def story() -> None:
        calls, go_on = BoundedCalls(1), threading.Event()
        with pytest.raises(TimeoutError):
            await calls.run(go_on.wait, 0.05)
        with pytest.raises(Busy):
            await calls.run(lambda: True, 0.05)
        waiting = asyncio.ensure_future(calls.run(lambda: 42, 10))
        await asyncio.sleep(0)
        go_on.set()
        assert await waiting == 42

    asyncio.run(story())
