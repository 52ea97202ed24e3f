"""Backup files: whole or refused, with words that say what to do."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from gosched.wire.backup_file import BackupInfo, read_from, write_backup, write_to
from gosched.wire.backup_seal import BadBackup, Secret, read_secret

INFO = BackupInfo(
    release="1.2",
    master="m1",
    cluster_id="c",
    revision=7,
    feature_level=5,
    taken_at_ms=1_000,
    jobs=1,
    nodes=2,
    allocations=3,
)
CONTENT = [b"first", b"", b"second" * 1000]
PASSPHRASE, KEY = Secret(b"secret", is_key=False), Secret(b"k" * 32, is_key=True)


def made(secret: Secret | None) -> bytes:
    file = io.BytesIO()
    write_to(file, INFO, CONTENT, secret)
    return file.getvalue()


def content(data: bytes, secret: Secret | None = None) -> bytes:
    backup = read_from(io.BytesIO(data), secret)
    assert backup.info == INFO
    return b"".join(backup.chunks())


def problem(data: bytes, secret: Secret | None = None) -> str:
    with pytest.raises(BadBackup) as raised:
        content(data, secret)
    return str(raised.value)


@pytest.mark.parametrize("secret", [None, PASSPHRASE, KEY])
def test_what_is_written_is_read_again(secret: Secret | None) -> None:
    data = made(secret)
    assert content(data, secret) == b"".join(CONTENT)
    assert data.startswith(b'GOSCHED-BACKUP 1\n{"release": "1.2"')
    assert (b"second" in data) is (secret is None)


@pytest.mark.parametrize("secret", [None, KEY])
def test_a_file_that_was_changed_anywhere_or_cut_is_refused(secret: Secret | None) -> None:
    data = made(secret)
    for at in range(0, len(data), 11):
        changed = bytearray(data)
        changed[at] ^= 1
        with pytest.raises(BadBackup):
            read_and_forget(bytes(changed), secret)
    for size in (0, 5, 40, len(data) // 2, len(data) - 1):
        with pytest.raises(BadBackup):
            read_and_forget(data[:size], secret)
    assert "something follows its end" in problem(data + b"x", secret)


def read_and_forget(data: bytes, secret: Secret | None) -> None:
    b"".join(read_from(io.BytesIO(data), secret).chunks())


def test_parts_of_an_encrypted_file_cannot_change_places_or_files() -> None:
    data = made(KEY)
    header = data.index(b"\n", data.index(b"\n") + 1) + 1
    size = int.from_bytes(data[header : header + 4], "little")
    first, rest = data[header : header + 4 + size], data[header + 4 + size :]
    assert "damaged or changed (part 1)" in problem(data[:header] + rest, KEY)
    other = made(KEY)
    assert "damaged or changed (part 1)" in problem(other[:header] + first + rest, KEY)


def test_a_wrong_key_or_passphrase_is_called_so() -> None:
    wrong = "is not the one that this backup was encrypted with"
    assert problem(made(PASSPHRASE), Secret(b"Secret", is_key=False)) == f"the passphrase {wrong}"
    assert problem(made(KEY), Secret(b"K" * 32, is_key=True)) == f"the key {wrong}"
    assert problem(made(KEY), PASSPHRASE) == "it was encrypted with a key file: name that"
    assert "name what it was encrypted with (--passphrase-file FILE)" in problem(made(PASSPHRASE))
    assert problem(b"PK\3\4something else\n") == "it is not a gosched backup"
    assert "newer gosched" in problem(b"GOSCHED-BACKUP 2\n{}\n")


def test_a_key_file_that_is_none_is_refused_with_how_to_make_one(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.touch(mode=0o600)
    key.write_text("short")
    with pytest.raises(BadBackup, match="make one with openssl rand -hex 32"):
        read_secret(None, str(key))
    key.write_text("6b" * 32 + "\n")
    assert read_secret(None, str(key)) == KEY
    (tmp_path / "empty").touch(mode=0o600)
    with pytest.raises(BadBackup, match="is empty: write a passphrase into it"):
        read_secret(str(tmp_path / "empty"), None)


def test_a_backup_that_fails_in_the_middle_leaves_the_one_before(tmp_path: Path) -> None:
    file = tmp_path / "backup"
    write_backup(file, INFO, CONTENT)
    before = file.read_bytes()

    def breaks_off() -> object:
        yield b"some"
        raise ConnectionError("lost")

    with pytest.raises(ConnectionError):
        write_backup(file, INFO, breaks_off())  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["backup"]
    assert file.read_bytes() == before
    assert file.stat().st_mode & 0o777 == 0o600
