"""Where a master's keyring comes from: a file, a variable, a command; and what becomes of bad ones."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from gosched.config.secrets_model import Secrets
from gosched.master.base.errors import ApiError
from gosched.master.base.secret_keys import SecretKeys
from gosched.wire.secret_keys import MAX_KEYRING_BYTES, new_key_line

LIMIT_S = 20.0


def written(path: Path, *ids: str) -> Path:
    path.touch(mode=0o600)
    path.write_text("".join(f"{new_key_line(key_id)}\n" for key_id in ids))
    return path


def ids(keys: SecretKeys) -> list[str]:
    return [key.id for key in keys.keyring.keys] if keys.keyring else []


def by_command(*words: str, limit_s: float = LIMIT_S) -> SecretKeys:
    return SecretKeys(Secrets(key_command=words), command_s=limit_s)


def test_without_settings_there_are_no_keys_and_who_needs_them_is_told_how_to_get_them():
    keys = SecretKeys(None)
    assert keys.start() == ""
    assert not keys.is_awaited
    with pytest.raises(ApiError, match=r"need secrets\.key_file"):
        keys.needed()


def test_a_file_is_read_and_again_when_it_changes(tmp_path):
    file = written(tmp_path / "keys", "a")
    keys = SecretKeys(Secrets(key_file=str(file)))
    assert keys.start() == ""
    assert ids(keys) == ["a"]

    async def story() -> None:
        running = asyncio.create_task(keys.run())
        written(tmp_path / "next", "b", "a").rename(file)
        async with asyncio.timeout(LIMIT_S):
            while ids(keys) != ["b", "a"]:
                await asyncio.sleep(0.01)
        file.write_text("no key\n")
        keys.ask()
        await asyncio.sleep(0)
        written(tmp_path / "third", "c").rename(file)
        async with asyncio.timeout(LIMIT_S):
            while ids(keys) != ["c"]:
                assert ids(keys) == ["b", "a"]  # never nothing in between
                await asyncio.sleep(0.01)
        running.cancel()

    asyncio.run(story())


@pytest.mark.parametrize(
    ("text", "mode", "words"),
    [
        ("", 0o600, "it holds no key"),
        ("garbage", 0o600, "line 1 is no ID:BASE64"),
        (new_key_line("a"), 0o644, "users other than its owner can use the secret"),
    ],
    ids=("empty", "garbage", "open to others"),  # keys differ in each process of the tests
)
def test_a_bad_file_keeps_a_master_from_starting_in_one_line(tmp_path, text, mode, words):
    file = tmp_path / "keys"
    file.write_text(text)
    file.chmod(mode)
    problem = SecretKeys(Secrets(key_file=str(file))).start()
    assert words in problem
    assert "secrets.key_file" in problem
    assert "\n" not in problem


def test_a_file_that_is_not_there_is_called_so(tmp_path):
    assert "No such file" in SecretKeys(Secrets(key_file=str(tmp_path / "none"))).start()


def test_a_variable_holds_the_lines(monkeypatch):
    monkeypatch.setenv("RING", f"{new_key_line('a')}\n{new_key_line('b')}")
    keys = SecretKeys(Secrets(key_env="RING"))
    assert keys.start() == ""
    assert ids(keys) == ["a", "b"]
    assert "RING: the variable is not set" in SecretKeys(Secrets(key_env="RING2")).start().replace("RING2", "RING")


def test_a_command_prints_the_lines(tmp_path):
    keys = by_command("cat", str(written(tmp_path / "keys", "a", "b")))
    assert keys.start() == ""
    assert ids(keys) == ["a", "b"]


def test_a_command_gets_no_input():
    keys = by_command("cat")  # it would wait for a terminal's
    assert keys.start() == ""  # a KMS may be down: the master starts
    assert keys.is_awaited
    with pytest.raises(ApiError, match="no keys of secrets yet"):
        keys.needed()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("false",), "exit code 1"),
        (("/no/such/program",), "No such file"),
        (("echo", "garbage"), "line 1 is no ID:BASE64"),
        (("head", "-c", str(MAX_KEYRING_BYTES + 2), "/dev/zero"), "prints more than"),
        (("yes", "a line"), "prints more than"),
        (("sh", "-c", "echo secret-words >&2; exit 3"), "exit code 3"),
    ],
)
def test_a_command_that_fails_or_prints_garbage_gives_no_keys_and_ends(words, problem, capfd):
    keys = by_command(*words)
    assert keys.start() == ""
    assert keys.is_awaited
    said = keys._told
    assert problem in said
    assert "\n" not in said
    assert "secret-words" not in said + "".join(capfd.readouterr())


def test_a_command_that_hangs_is_killed_with_all_that_it_started(tmp_path):
    started = tmp_path / "pids"
    keys = by_command("sh", "-c", f"sleep 600 & echo $! > {started}; wait", limit_s=0.5)
    began = time.monotonic()
    keys.start()
    assert time.monotonic() - began < LIMIT_S
    assert "has not ended within 0.5 s" in keys._told
    pid = int(started.read_text())
    deadline = time.monotonic() + LIMIT_S
    while _runs(pid):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_command_that_has_ended_and_left_its_output_to_another_process_does_not_hold_the_master_up(tmp_path):
    started = tmp_path / "pids"
    keys = by_command("sh", "-c", f"sleep 600 & echo $! > {started}", limit_s=0.5)
    began = time.monotonic()
    keys.start()
    assert time.monotonic() - began < LIMIT_S
    assert "has not ended within" in keys._told
    deadline = time.monotonic() + LIMIT_S
    while _runs(int(started.read_text())):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_keys_in_use_outlast_a_command_that_fails_later(tmp_path):
    file = written(tmp_path / "keys", "a")
    keys = by_command("cat", str(file))
    keys.start()
    file.unlink()
    keys.look()
    assert ids(keys) == ["a"]


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
