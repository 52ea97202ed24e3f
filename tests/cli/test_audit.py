"""`goschedctl audit` on real files: what it prints, and how it ends."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from gosched.audit.chain_file import CURRENT
from gosched.audit.record import Outcome
from gosched.cli.main import run_cli
from tests.audit.test_chain import record, written


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    log = written(tmp_path / "audit", 3)
    now_ms = time.time_ns() // 1_000_000
    log.append([record(7, time_ms=now_ms, user="eve\x1b", outcome=Outcome.REFUSED, reason="no", count=9)])
    log.close()
    return tmp_path / "audit"


def test_verify_prints_the_head_and_takes_it_again(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run_cli(["audit", "verify", str(folder)]) == 0
    out, err = capfd.readouterr()
    assert out.startswith("4:")
    assert err == "4 lines from 1 to 4: whole\n"
    assert run_cli(["audit", "verify", str(folder / CURRENT), "--expect", out.strip()]) == 0
    lines = (folder / CURRENT).read_bytes().splitlines(keepends=True)
    (folder / CURRENT).write_bytes(b"".join(lines[:3]))
    capfd.readouterr()
    assert run_cli(["audit", "verify", str(folder), "--expect", out.strip()]) == 1
    assert "its end was cut off" in capfd.readouterr().err
    (folder / CURRENT).write_bytes(b"".join([lines[0], lines[1].replace(b"ann", b"bob"), *lines[2:]]))
    assert run_cli(["audit", "verify", str(folder)]) == 1
    assert f"{folder / CURRENT}:2: it was changed" in capfd.readouterr().err


@pytest.mark.parametrize(
    ("args", "code", "words"),
    [
        (["verify"], 2, "Missing argument"),
        (["verify", "/no/such"], 2, "does not exist"),
        (["verify", "{}", "--expect", "7"], 2, "expected SEQ:HASH"),
        (["verify", "/dev/null"], 1, "there are no lines"),
        (["list", "{}", "--since", "soon"], 2, "--since"),
    ],
)
def test_bad_input_gets_one_line(
    folder: Path, capfd: pytest.CaptureFixture[str], args: list[str], code: int, words: str
) -> None:
    assert run_cli(["audit", *(word.format(folder) for word in args)]) == code
    err = capfd.readouterr().err
    assert words in err
    assert err.count("\n") == 1


def test_list_shows_what_is_asked_for(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    def rows(*args: str) -> list[int]:
        assert run_cli(["audit", "list", str(folder), *args, "-o", "json"]) == 0
        return [row["seq"] for row in json.loads(capfd.readouterr().out)]

    assert rows() == [1, 2, 3, 4]
    assert rows("--user", "ann") == [1, 2, 3]
    assert rows("--refused") == [4]
    assert rows("--limit", "2") == [3, 4]
    assert rows("--since", "2h") == [4]
    assert rows("--since", "2h", "--user", "ann") == []
    assert run_cli(["audit", "list", str(folder)]) == 0
    out = capfd.readouterr().out
    assert out.splitlines()[0].split() == ["TIME", "USER", "ADDRESS", "ACTION", "OUTCOME", "COUNT", "ABOUT", "REASON"]
    assert "eve\\x1b" in out
    (folder / CURRENT).write_bytes(b"broken\n" + (folder / CURRENT).read_bytes())
    assert run_cli(["audit", "list", str(folder), "--refused"]) == 0
    assert "1 line cannot be read" in capfd.readouterr().err
