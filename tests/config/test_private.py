"""Modes of real files and directories: what is the program's own is closed, what is too open is refused."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from gosched.config.contexts import read_contexts
from gosched.config.private import CLOSED, PASSABLE, close_directory, exposed

ROOT_ONLY = pytest.mark.skipif(os.geteuid() != 0, reason="gives files to another user")


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def directory(path: Path, bits: int, *names: str) -> Path:
    path.mkdir()
    for name in names:
        (path / name).touch()
    path.chmod(bits)
    return path


@pytest.mark.parametrize(
    ("bits", "refused"),
    [(0o600, False), (0o400, False), (0o440, False), (0o640, False), (0o644, True), (0o660, True), (0o604, True)],
)
def test_a_secret_may_be_read_by_its_owner_and_a_group_alone(tmp_path: Path, bits: int, refused: bool) -> None:
    file = tmp_path / "key"
    file.touch()
    file.chmod(bits)
    assert bool(exposed(file)) == refused
    if refused:
        assert exposed(file).endswith(f"(mode {bits:03o}): chmod 600 {file}")


def test_what_a_link_leads_to_counts_and_what_is_no_file_is_not_judged(tmp_path: Path) -> None:
    (tmp_path / "key").touch(mode=0o644)
    (tmp_path / "key").chmod(0o644)
    (tmp_path / "link").symlink_to("key")
    assert exposed(tmp_path / "link")
    reading, writing = os.pipe()
    assert not exposed(f"/dev/fd/{reading}")  # `<(...)` of a shell
    os.close(reading)
    os.close(writing)


@pytest.mark.parametrize("names", [(), ("lost+found",), ("raft", "history.db"), ("lock", "node_id", "tasks")])
def test_a_data_directory_of_ones_own_is_closed(tmp_path: Path, names: tuple[str, ...]) -> None:
    for taken, left in ((CLOSED, 0o700), (PASSABLE, 0o711)):
        path = directory(tmp_path / str(taken), 0o777, *names)
        assert close_directory(path, taken) == ""
        assert mode(path) == left


def test_a_directory_of_something_else_keeps_its_mode_and_is_refused_if_others_write_there(tmp_path: Path) -> None:
    path = directory(tmp_path / "home", 0o755, "thesis.tex")
    assert close_directory(path) == ""
    assert mode(path) == 0o755
    path.chmod(0o1777)  # as /tmp
    assert close_directory(path) == (
        f"users other than its owner can write in the data directory {path} (mode 1777):"
        f" chmod go-w {path}, or choose another"
    )
    assert mode(path) == 0o1777


@ROOT_ONLY
def test_a_data_directory_of_another_user_is_refused(tmp_path: Path) -> None:
    path = directory(tmp_path / "data", 0o700)
    os.chown(path, 65534, 65534)
    assert close_directory(path).endswith(f"chown root {path}, or choose another")
    assert mode(path) == 0o700


@ROOT_ONLY
@pytest.mark.parametrize(
    ("bits", "mounted", "refused"),
    [
        (0o2775, True, False),  # a volume with fsGroup
        (0o777, True, False),  # one of local-path, an emptyDir
        (0o1777, True, True),  # /tmp
        (0o775, False, False),
        (0o777, False, True),
    ],
)
def test_a_directory_that_root_prepared_for_a_group_is_taken_as_kubernetes_mounts_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bits: int, mounted: bool, refused: bool
) -> None:
    path = directory(tmp_path / "data", bits)
    monkeypatch.setattr(os, "geteuid", lambda: 10001)
    monkeypatch.setattr(os.path, "ismount", lambda _: mounted)
    assert bool(close_directory(path)) == refused
    assert mode(path) == bits


def test_the_file_of_contexts_is_closed_when_it_is_read(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text("contexts: {a: {endpoints: 'h:1'}}\n")
    file.chmod(0o644)
    assert "a" in read_contexts(file).named
    assert mode(file) == 0o600
