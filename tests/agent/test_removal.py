"""What tasks leave is removed, whatever it is; what it points to is not."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gosched.agent.tasks import removal
from gosched.agent.tasks.removal import remove_tree


def test_a_tree_goes_however_deep_wide_or_closed_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(removal, "BATCH", 3)
    tree = tmp_path / "tree"
    tree.mkdir()
    at = os.open(tree, os.O_RDONLY)
    for _ in range(1500):  # deeper than Python's stack, and than a path can name
        os.mkdir("deep", dir_fd=at)
        inner = os.open("deep", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = inner
    os.close(at)
    for number in range(10):
        (tree / f"wide-{number}").mkdir()
        (tree / f"wide-{number}" / "file").write_text("x")
        (tree / f"wide-{number}").chmod(0)
    tree.chmod(0)
    remove_tree(tree)
    assert os.listdir(tmp_path) == []


def test_links_go_and_what_they_point_to_stays(tmp_path: Path) -> None:
    outside, tree = tmp_path / "outside", tmp_path / "tree"
    outside.mkdir(mode=0o750)
    (outside / "file").write_text("precious")
    tree.mkdir()
    (tree / "directory").symlink_to(outside)
    (tree / "file").symlink_to(outside / "file")
    (tree / "hard").hardlink_to(outside / "file")
    remove_tree(tree)
    assert os.listdir(tmp_path) == ["outside"]
    assert (outside / "file").read_text() == "precious"
    assert outside.stat().st_mode & 0o777 == 0o750
