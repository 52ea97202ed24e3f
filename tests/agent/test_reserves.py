"""Files with disk blocks of their own, which go from one task to the next."""

from __future__ import annotations

from pathlib import Path

import pytest

from gosched.agent.files import RESERVED_BYTES, replace
from gosched.agent.tasks import reserves
from gosched.agent.tasks.reserves import Reserves

NAMES = ("stop.json", "freeze.json")


def directory(tmp_path: Path, name: str) -> Path:
    made = tmp_path / name
    made.mkdir()
    return made


def test_what_a_task_did_not_write_is_the_next_ones_file(tmp_path: Path) -> None:
    kept = Reserves(tmp_path / "spare")
    first, second = directory(tmp_path, "first"), directory(tmp_path, "second")
    kept.give(first, NAMES)
    reserved = {(first / f"{name}.tmp").stat().st_ino for name in NAMES}
    assert [(first / f"{name}.tmp").stat().st_size for name in NAMES] == [RESERVED_BYTES] * 2
    replace(first / "stop.json", b"{}")
    written = (first / "stop.json").stat().st_ino
    kept.take_back(first, NAMES)
    assert [path.name for path in first.iterdir()] == ["stop.json"], "a record stays"
    kept = Reserves(tmp_path / "spare")  # the agent was started anew
    kept.give(second, NAMES)
    given = {(second / f"{name}.tmp").stat().st_ino for name in NAMES}
    assert given & reserved == reserved - {written}
    assert all((second / f"{name}.tmp").stat().st_blocks > 0 for name in NAMES)
    assert list((tmp_path / "spare").iterdir()) == []


def test_a_spare_file_that_has_gone_is_made_anew(tmp_path: Path) -> None:
    kept = Reserves(tmp_path / "spare")
    first, second = directory(tmp_path, "first"), directory(tmp_path, "second")
    kept.give(first, NAMES)
    kept.take_back(first, NAMES)
    for path in (tmp_path / "spare").iterdir():
        path.unlink()
    kept.give(second, NAMES)
    assert sorted(path.name for path in second.iterdir()) == sorted(f"{name}.tmp" for name in NAMES)


def test_not_more_than_a_bound_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reserves, "MAX_SPARE", 1)
    kept = Reserves(tmp_path / "spare")
    first = directory(tmp_path, "first")
    kept.give(first, NAMES)
    kept.take_back(first, NAMES)
    assert len(list((tmp_path / "spare").iterdir())) == 1
    assert len(list(first.iterdir())) == 1


def test_a_spare_file_that_a_loss_of_power_has_emptied_is_given_to_no_task(tmp_path: Path) -> None:
    spare = directory(tmp_path, "spare")
    (spare / "7").touch()
    kept, task = Reserves(spare), directory(tmp_path, "task")
    assert not list(spare.iterdir())
    kept.give(task, NAMES[:1])
    assert (task / f"{NAMES[0]}.tmp").stat().st_size == RESERVED_BYTES
