"""What is opened below a directory stays below it, with the kernel's own help and without."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from gosched.agent import beneath
from gosched.agent.acting import as_account
from gosched.agent.beneath import NotAFile, open_beneath, open_file, opened
from gosched.agent.supervisor.launch import Account
from gosched.agent.tasks.logs import Stream, StreamReader

REFUSED = "Invalid cross-device link|Too many levels of symbolic links"
DIRECTORY = os.O_RDONLY | os.O_DIRECTORY


@pytest.fixture(params=["openat2", "step by step"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    if request.param == "step by step":
        monkeypatch.setattr(beneath, "_has_openat2", lambda: False)
    elif not beneath._has_openat2():
        pytest.skip("this kernel has no openat2")
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "file").write_text("secret")
    base = tmp_path / "base"
    (base / "a" / "b").mkdir(parents=True)
    (base / "a" / "file").write_text("own")
    for name, target in (("up", "../outside"), ("abs", str(tmp_path / "outside")), ("in", "a"), ("self", "/proc/self")):
        (base / name).symlink_to(target)
    os.mkfifo(base / "pipe")
    with opened(base) as fd:
        yield fd


def test_what_is_below_is_opened(root: int) -> None:
    for path in ("", "a", "a/b", "./a//b"):
        os.close(open_beneath(root, path, DIRECTORY))
    fd = open_file(root, "a/file")
    assert os.read(fd, 10) == b"own"
    os.close(fd)


@pytest.mark.parametrize("path", ["..", "a/../..", "/", "/etc/passwd", "up/file", "abs/file", "up", "in/file", "self"])
def test_nothing_else_is_and_no_link_is_followed(root: int, path: str) -> None:
    with pytest.raises(OSError, match=REFUSED):
        os.close(open_beneath(root, path, os.O_RDONLY))


@pytest.mark.parametrize("path", ["pipe", "a", "in", "up", "self"])
def test_a_file_that_is_to_be_read_is_a_file_and_nobody_waits_for_a_pipe(root: int, path: str) -> None:
    with pytest.raises(NotAFile):
        open_file(root, path)


def test_no_descriptor_stays_open(root: int) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for path in ("a/b", "in/file", "nothing/at/all", "pipe", "a/file", "../x"):
        try:
            os.close(open_file(root, path))
        except OSError:
            continue
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_log_that_its_task_replaced_by_a_pipe_or_a_link_keeps_no_reader(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("secret")
    os.mkfifo(tmp_path / f"stdout-{0:020d}.log")
    (tmp_path / f"stderr-{0:020d}.log").symlink_to(secret)
    for stream in Stream:
        assert StreamReader(lambda: tmp_path, stream, 0).read() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can look as somebody else")
def test_the_rights_of_a_user_are_those_of_one_thread_and_for_a_while(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.write_text("secret")
    closed.chmod(0o600)
    user = Account(uid=65534, gid=65534, groups=(65534,))
    elsewhere: list[str] = []
    before = os.getgroups()
    go = threading.Event()
    other = threading.Thread(target=lambda: elsewhere.append(closed.read_text()) if go.wait(60) else None)
    other.start()  # one that is started by a thread with less rights has no more
    with as_account(user):
        with pytest.raises(PermissionError):
            closed.read_text()
        go.set()
        other.join(60)
    assert elsewhere == ["secret"]
    assert closed.read_text() == "secret"
    assert os.getgroups() == before
    with pytest.raises(ZeroDivisionError), as_account(user):
        raise ZeroDivisionError
    assert closed.read_text() == "secret"
