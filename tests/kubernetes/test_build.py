"""Building a Kubernetes: what cannot work is said before minutes have gone by."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.kubernetes import build

THEIRS = """\
module k8s.io/kubernetes

go 1.26.0

godebug default=go1.26

require (
	github.com/spf13/cobra v1.10.0
	k8s.io/api v0.0.0
	k8s.io/utils v0.0.0-20260101
)

replace (
	k8s.io/api => ./staging/src/k8s.io/api
)
"""


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setattr(build, "CACHE", tmp_path)
    return tmp_path


def test_modules_of_the_staging_folder_are_taken_as_published() -> None:
    lines = build.module_file(THEIRS, "v1.37.1").splitlines()
    assert "\tk8s.io/api v0.37.1" in lines
    assert "\tk8s.io/utils v0.0.0-20260101" in lines
    assert "require k8s.io/kubernetes v1.37.1" in lines
    assert "replace k8s.io/api => k8s.io/api v0.37.1" in lines
    assert {"go 1.26.0", "godebug default=go1.26"} <= set(lines)


def test_without_go_it_says_what_to_install(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build.shutil, "which", lambda name: None)
    with pytest.raises(build.BuildError, match="install Go"):
        build.tool("helm3")


def test_without_room_it_says_how_much_it_takes(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "FREE_BYTES", 1 << 62)
    with pytest.raises(build.BuildError, match="make room there"):
        build.tool("helm3")
    assert not list(cache.glob("helm3*"))


def test_a_failed_build_leaves_nothing_and_shows_what_go_said(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "FREE_BYTES", 0)
    go = cache / "go"
    go.write_text("#!/bin/sh\necho this module is not to be had >&2\nexit 1\n")
    go.chmod(0o755)
    monkeypatch.setattr(build.shutil, "which", lambda name: str(go))
    with pytest.raises(build.BuildError, match="this module is not to be had"):
        build.tool("helm3")
    assert not list(cache.glob("*helm3*"))
