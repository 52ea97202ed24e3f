"""Backups that a leader makes by itself: when, how many, through which command, and what is said of failures."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest
import yaml

from gosched.api.json.status import status_json
from gosched.client import GoSchedClient
from gosched.config import ConfigError, load_master_settings
from gosched.config.backup_model import Backup
from gosched.master.backups.backup_source import BackupSource
from gosched.master.backups.scheduled_backups import ScheduledBackups
from gosched.master.base.clock import StateClock, SystemClock
from gosched.replication.backups.backup import state_in
from gosched.replication.memory import MemoryReplication
from gosched.wire.backup_file import read_from
from gosched.wire.backup_seal import read_secret
from tests.master.harness import LIMIT_S, Front, one_master, settings, until


class ManualClock(SystemClock):
    """Stands still but for what a test sets it forward by."""

    def __init__(self) -> None:
        self.at_ms = time.time_ns() // 1_000_000

    def now_ms(self) -> int:
        return self.at_ms

    def pass_s(self, seconds: int) -> None:
        self.at_ms += seconds * 1000


def files(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("gosched-*")) if folder.exists() else []


async def status(front: Front) -> Any:
    def ask() -> Any:
        with GoSchedClient(front.server.record.grpc_address) as client:
            return status_json(client.get_status())["backup"]

    return await asyncio.to_thread(ask)


async def backed_up(front: Front) -> Any:
    """Return the status once a first backup was made, or has failed."""
    async with asyncio.timeout(LIMIT_S):
        while not ((said := await status(front))["last_success_at"] or said["failures"]):
            await asyncio.sleep(0.01)
    return said


def test_a_leader_makes_its_first_backup_at_once_and_says_when(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "pass").touch(mode=0o600)
        (tmp_path / "pass").write_text("secret")
        backup = {"every": "1h", "directory": str(tmp_path / "b"), "passphrase_file": str(tmp_path / "pass")}
        async with one_master(backup=backup) as front:
            await until(lambda: files(tmp_path / "b"))
            (name,) = files(tmp_path / "b")
            assert name.startswith(f"gosched-{front.state.cluster_id}-")
            with (tmp_path / "b" / name).open("rb") as file:
                found = read_from(file, read_secret(str(tmp_path / "pass"), None))
                assert state_in(b"".join(found.chunks())).cluster_id == front.state.cluster_id
            said = await backed_up(front)
            assert (said["failures"], said["problem"]) == (0, "")
            assert said["last_success_at"] is not None
            text = front.server.metrics.text().decode()
            assert "gosched_backup_failures_total 0.0" in text
            age = float(next(line.split()[1] for line in text.splitlines() if line.startswith("gosched_backup_age_")))
            assert age < 60

    asyncio.run(story())


def test_a_failure_is_told_and_leaves_nothing(tmp_path: Path) -> None:
    async def story() -> None:
        words = ["sh", "-c", "cat > /dev/null; echo no such bucket >&2; exit 3"]
        backup = {"every": "1h", "directory": str(tmp_path / "b"), "command": words}
        async with one_master(backup=backup) as front:
            said = await backed_up(front)
            assert said["problem"] == "sh ended with code 3: no such bucket"
            assert said["last_success_at"] is None
            assert files(tmp_path / "b") == []
            text = front.server.metrics.text().decode()
            assert "gosched_backup_failures_total 1.0" in text
            assert "gosched_backup_age_seconds +Inf" in text

    asyncio.run(story())


def scheduled(tmp_path: Path, clock: ManualClock, **more: object) -> ScheduledBackups:
    replication = MemoryReplication("m1")
    source = BackupSource(replication, StateClock(clock, masters=1, bound_ms=1000))
    model = Backup(directory=str(tmp_path / "b"), **more)  # type: ignore[arg-type]
    return ScheduledBackups(model, source, leads=lambda: True, cluster_id=lambda: "", now_ms=lambda: clock.now_ms())


def test_the_oldest_beyond_keep_go_and_those_of_other_clusters_stay(tmp_path: Path) -> None:
    async def story() -> None:
        clock = ManualClock()
        made = scheduled(tmp_path, clock, every="1h", keep=2)
        (tmp_path / "b").mkdir()
        foreign = tmp_path / "b" / "gosched-other-20200101T000000Z-r1.backup"
        foreign.touch()
        for _ in range(4):
            await made.take()
            clock.pass_s(3600)
        kept = files(tmp_path / "b")
        assert len(kept) == 3
        assert foreign.name in kept
        assert made.status.failures == 0

    asyncio.run(story())


def test_an_object_store_gets_each_file_on_the_commands_stdin(tmp_path: Path) -> None:
    async def story() -> None:
        words = ("sh", "-c", f"cat > {tmp_path}/store-$0", "{name}")
        made = scheduled(tmp_path, ManualClock(), every="1h", command=words)
        await made.take()
        (name,) = files(tmp_path / "b")
        assert (tmp_path / f"store-{name}").read_bytes() == (tmp_path / "b" / name).read_bytes()

    asyncio.run(story())


def test_it_is_due_after_the_last_one_that_is_there(tmp_path: Path) -> None:
    async def story() -> None:
        clock = ManualClock()
        made = scheduled(tmp_path, clock, every="1h")
        assert made.due_ms() == 0
        await made.take()
        after = scheduled(tmp_path, clock, every="1h")  # the next leader, or the same one after a restart
        await after.find_last()
        assert clock.now_ms() + 3598_000 <= after.due_ms() <= clock.now_ms() + 3600_000
        daily = scheduled(tmp_path, clock, schedule="0 2 * * *")
        assert clock.now_ms() < daily.due_ms() <= clock.now_ms() + 86_400_000

    asyncio.run(story())


@pytest.mark.parametrize(
    ("backup", "said"),
    [
        ({"directory": "/b"}, 'needs either "every", a duration, or "schedule"'),
        ({"directory": "b", "every": "1h"}, "expected an absolute path"),
        ({"directory": "/b", "schedule": "whenever"}, "expected minute, hour"),
        ({"directory": "/b", "every": "1s"}, "expected at least 10000"),
        ({"directory": "/b", "every": "1h", "keep": 0}, "expected at least 1"),
        ({"every": "1h"}, 'needs "directory"'),
        ({"directory": "/b", "every": "1h", "passphrase_file": "p", "key_file": "k"}, "name one of them"),
    ],
)
def test_a_bad_config_is_one_line(backup: dict[str, object], said: str, tmp_path: Path) -> None:
    file = tmp_path / "gosched.yaml"
    file.write_text(yaml.safe_dump({"backup": backup}))
    with pytest.raises(ConfigError) as raised:
        load_master_settings(str(file), {})
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
    assert settings().backup is None
