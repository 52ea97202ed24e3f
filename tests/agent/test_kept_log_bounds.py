"""The bounds of the kept logs, on a pretended clock."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from gosched.agent.logs.kept import MAX_ASKED, Bounds, KeptLogs
from gosched.agent.logs.kept_log import KeptLog
from gosched.agent.logs.upload import Uploads
from gosched.agent.tasks.logs import Stream, StreamReader
from gosched.agent.tasks.spool import Spool, spool_for
from gosched.archive.store import ArchiveError

GIB = 1 << 30


class Node:
    """The directories of an agent."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.now_ms = 1_000_000
        for name in ("tasks", "trash"):
            (root / name).mkdir()

    def kept(
        self, *, keep_ms: int | None = None, max_bytes: int = GIB, max_logs: int = 100, archives: bool = False
    ) -> KeptLogs:
        bounds = Bounds(keep_ms=keep_ms, max_bytes=max_bytes, max_logs=max_logs, archives=archives)
        kept = KeptLogs(self.root / "logs", self.root / "trash", bounds, lambda: self.now_ms)
        kept.load()
        return kept

    def ended(self, kept: KeptLogs, allocation_id: str, *, ended_at_ms: int = 0, size: int = 5000) -> Spool:
        spool = spool_for(self.root / "tasks", allocation_id)
        spool.logs.mkdir(parents=True)
        (spool.logs / f"stdout-{0:020d}.log").write_bytes(b"x" * size)
        task_id = allocation_id.rpartition(".")[0]
        log = KeptLog(
            allocation_id=allocation_id,
            task_id=task_id,
            job_id=task_id.partition("/")[0],
            ended_at_ms=ended_at_ms or self.now_ms,
            has_started=True,
        )
        asyncio.run(kept.take(spool, log))
        return spool


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def present(kept: KeptLogs, *allocation_ids: str) -> list[str]:
    return [i for i in allocation_ids if not kept.why_missing(i)]


def test_a_log_with_a_time_goes_when_it_is_over(node: Node) -> None:
    kept = node.kept(keep_ms=60_000)
    node.ended(kept, "j1/main/0.1", ended_at_ms=node.now_ms - 59_000)
    asyncio.run(kept.clean())
    assert present(kept, "j1/main/0.1")
    assert not kept.jobs_to_ask(), "the masters need not be asked"
    node.now_ms += 1_000
    asyncio.run(kept.clean())
    assert "kept for 60 s" in kept.why_missing("j1/main/0.1")
    assert not list((node.root / "logs").iterdir())


def test_too_many_logs_go_oldest_first_and_later_agents_know_of_it(node: Node) -> None:
    kept = node.kept(max_logs=2)
    ids = [f"j{i}/main/0.1" for i in range(4)]
    for place, allocation_id in enumerate(ids):
        node.ended(kept, allocation_id, ended_at_ms=1000 * (place + 1))
    asyncio.run(kept.clean())
    assert present(kept, *ids) == ids[2:]
    for each in (kept, node.kept(max_logs=2)):
        assert "those of tasks that ended before 1970-01-01 00:00:02 UTC had to go" in each.why_missing(ids[0])


def test_what_the_archive_has_goes_first(node: Node) -> None:
    kept = node.kept(max_bytes=45_000, archives=True)
    for place in range(3):
        node.ended(kept, f"j{place}/main/0.1", ended_at_ms=1000 * (place + 1), size=10_000)
    asyncio.run(kept.archived("j1/main/0.1"))
    before = kept.size_bytes
    assert before > 45_000
    asyncio.run(kept.clean())
    assert present(kept, "j0/main/0.1", "j1/main/0.1", "j2/main/0.1") == ["j0/main/0.1", "j2/main/0.1"]
    assert node.kept(archives=True).size_bytes == kept.size_bytes < before


def test_the_log_of_a_forgotten_job_waits_for_the_archive(node: Node) -> None:
    kept = node.kept(archives=True)
    node.ended(kept, "j1/main/0.1")
    kept.forget_jobs(["j1"])
    asyncio.run(kept.clean())
    assert present(kept, "j1/main/0.1")
    asyncio.run(kept.archived("j1/main/0.1"))
    kept.forget_jobs(["j1", "never heard of"])
    asyncio.run(kept.clean())
    assert not present(kept, "j1/main/0.1")


def test_the_masters_are_asked_about_all_jobs_a_few_at_a_time(node: Node) -> None:
    kept = node.kept()
    for place in range(MAX_ASKED + 10):
        node.ended(kept, f"j{place}/main/0.1", size=1)
    asked = [kept.jobs_to_ask() for _ in range(3)]
    assert all(len(jobs) == MAX_ASKED for jobs in asked)
    assert set().union(*asked) == {f"j{place}" for place in range(MAX_ASKED + 10)}


def test_a_directory_without_a_record_is_removed_at_the_start(node: Node) -> None:
    kept = node.kept()
    node.ended(kept, "j1/main/0.1")
    (node.root / "logs" / "stray").mkdir()
    (node.root / "logs" / "j1%2Fmain%2F0.1" / "record.json").write_text("{")
    again = node.kept()
    assert again.size_bytes == 0
    assert not list((node.root / "logs").iterdir())


def test_an_id_that_was_given_again_replaces_the_older_log(node: Node) -> None:
    kept = node.kept()
    node.ended(kept, "j1/main/0.1", size=50_000)
    node.ended(kept, "j1/main/0.1", size=1)
    assert node.kept().size_bytes == kept.size_bytes < 50_000


def test_a_reader_misses_nothing_while_the_log_is_moved(node: Node) -> None:
    kept = node.kept()
    spool = spool_for(node.root / "tasks", "j1/main/0.1")
    reader = StreamReader(lambda: spool.logs if spool.logs.is_dir() else kept.place("j1/main/0.1"), Stream.STDOUT, 0)
    node.ended(kept, "j1/main/0.1", size=100_000)
    first = reader.read()
    places = iter([spool.logs, kept.place("j1/main/0.1")])
    reader._where = lambda: next(places)  # as where it is moved between the question and the look
    second = reader.read()
    assert first is not None
    assert second is not None
    assert len(first.data) + len(second.data) == 100_000


class Archive:
    def __init__(self) -> None:
        self.is_down = True
        self.objects: dict[str, bytes] = {}

    async def put(self, key: str, file: Path) -> None:
        if self.is_down:
            raise ArchiveError("it is down")
        self.objects[key] = file.read_bytes()


def test_an_upload_is_tried_again_later_and_by_the_next_agent(node: Node) -> None:
    kept, archive = node.kept(archives=True), Archive()
    for place in range(2):
        node.ended(kept, f"j{place}/main/0.1", ended_at_ms=int(time.time() * 1000))
    uploads = Uploads(kept, archive, lambda: "c1", node.root / "upload")
    asyncio.run(uploads.once())
    asyncio.run(uploads.once())
    assert uploads.failures == 1, "all wait a little when one has failed"
    archive.is_down = False
    again = node.kept(archives=True)
    asyncio.run(Uploads(again, archive, lambda: "c1", node.root / "upload").once())
    assert sorted(archive.objects) == [f"c1/j{p}/main/0.1.{s}.gz" for p in range(2) for s in ("stderr", "stdout")]
    assert not again.to_archive()
    assert not node.kept(archives=True).to_archive(), "the next agent knows"
    assert not (node.root / "upload").exists()


def test_an_upload_is_given_up_after_a_week(node: Node) -> None:
    kept = node.kept(archives=True)
    node.ended(kept, "j1/main/0.1", ended_at_ms=1)
    asyncio.run(Uploads(kept, Archive(), lambda: "c1", node.root / "upload").once())
    assert not kept.to_archive()
    assert present(kept, "j1/main/0.1")
