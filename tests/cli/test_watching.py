"""`-w`: a picture that stays in its place on a terminal, blocks and lines on a pipe; both outlive a failover."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from typing import Any

import pytest
from _pytest.capture import CaptureIO

from gosched.cli import output, watching
from gosched.cli.cells import cut, cut_line, width_of
from gosched.cli.output import Json, print_listing, show
from gosched.cli.watching import _ENTER, _HOME, _LEAVE
from gosched.client import Unavailable

Fetch = Callable[[], Any]


class Terminal:
    """Takes stdout for a terminal."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def written(self) -> str:
        """Return what was written since the last call."""
        return self._capsys.readouterr().out


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Terminal:
    monkeypatch.setattr(CaptureIO, "isatty", lambda self: True)
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("LINES", "6")
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setattr(watching, "PERIOD_S", 0.001)
    return Terminal(capsys)


def answers(*found: Any) -> Fetch:
    """One after the other; an exception is raised, and then comes Ctrl-C."""
    left = iter(found)

    def fetch() -> Any:
        answer = next(left, KeyboardInterrupt())
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return fetch


def named(value: Json) -> str:
    return str(value["id"])


def test_a_picture_stays_in_its_place_and_the_last_one_is_left(terminal: Terminal) -> None:
    with pytest.raises(KeyboardInterrupt):
        show(answers({"id": "one"}, {"id": "two"}), named, output="table", watch=True)
    text = terminal.written()
    assert text.startswith(_ENTER)
    screens, _, left = text.partition(_LEAVE)
    first, second = screens.removeprefix(_ENTER).split(_HOME)[1:]
    assert (first.startswith("one"), second.startswith("two")) == (True, True)
    assert left == "two\n"


def test_a_picture_never_scrolls(terminal: Terminal) -> None:
    tall = {"id": "\n".join(f"line {n} " + "x" * 100 for n in range(50))}
    with pytest.raises(KeyboardInterrupt):
        show(answers(tall, tall), named, output="table", watch=True)
    for frame in terminal.written().partition(_LEAVE)[0].split(_HOME)[1:]:
        lines = [line.replace("\x1b[K", "").replace("\x1b[J", "") for line in frame.split("\n")]
        assert len(lines) == 6
        assert all(width_of(line) <= 40 for line in lines)
        assert lines[4].startswith("… and more")


def test_a_picture_stays_while_no_master_answers_and_other_errors_end_it(terminal: Terminal) -> None:
    lost = Unavailable("no master answered")
    with pytest.raises(KeyboardInterrupt):
        show(answers({"id": "one"}, lost, lost, {"id": "two"}), named, output="table", watch=True)
    frames = terminal.written().partition(_LEAVE)[0].split(_HOME)[1:]
    assert ["no master answered" in frame for frame in frames] == [False, True, True, False]
    assert all(frame.startswith("one") for frame in frames[:3])
    with pytest.raises(ValueError, match="gone"):
        show(answers({"id": "one"}, ValueError("gone")), named, output="table", watch=True)
    assert terminal.written().endswith(f"{_LEAVE}one\n")


def test_another_size_of_the_window_is_seen_at_once(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "PERIOD_S", 30.0)
    shown: list[str] = []

    def text(value: Json) -> str:
        shown.append(os.environ["COLUMNS"])
        if len(shown) == 3:
            raise KeyboardInterrupt
        os.environ["COLUMNS"] = "30"
        signal.raise_signal(signal.SIGWINCH)
        return "picture"

    before = signal.getsignal(signal.SIGWINCH)
    with pytest.raises(KeyboardInterrupt):
        show(answers({"id": "a"}), text, output="table", watch=True)
    assert shown == ["40", "30", "30"]
    assert signal.getsignal(signal.SIGWINCH) is before


def test_a_pipe_gets_each_change_once(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "PERIOD_S", 0.001)
    columns = [("NODE", lambda row: row["id"]), ("STATE", lambda row: row["state"])]

    def rows(state: str, age_s: float) -> list[Json]:
        return [{"id": "n1", "state": state, "heartbeat_age_s": age_s}]

    def watched(form: str) -> tuple[str, str]:
        lost = Unavailable("no master answered")
        fetch = answers(rows("READY", 1), rows("READY", 2), lost, lost, rows("DEAD", 3), [])
        with pytest.raises(KeyboardInterrupt):
            print_listing(fetch, columns, output=form, watch=True)
        done = capsys.readouterr()
        return done.out, done.err

    out, err = watched("table")
    assert out == "NODE  STATE\nn1    READY\n\nNODE  STATE\nn1    DEAD\n\nNODE  STATE\n(no nodes)\n"
    assert err == "goschedctl: no master answered; it is tried again\n"
    states = [json.loads(line) for line in watched("json")[0].splitlines()]
    assert [[row["state"] for row in found] for found in states] == [["READY"], ["DEAD"], []]
    assert watched("yaml")[0].count("---\n") == 3


def test_an_empty_list_says_so_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    columns = [("NODE", lambda row: row["id"])]
    for form, out in (("table", "NODE\n"), ("wide", "NODE\n"), ("name", ""), ("json", "[]\n"), ("yaml", "[]\n")):
        print_listing(list, columns, output=form)
        assert capsys.readouterr() == (out, "" if form in ("json", "yaml") else "no nodes\n")


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("short", 5, "short"),
        ("longer", 5, "long…"),
        ("日本語です", 6, "日本…"),
        ("日本語", 6, "日本語"),
        ("e\u0301te", 3, "e\u0301te"),
        ("", 0, ""),
    ],
)
def test_text_is_cut_by_the_columns_that_it_takes(text: str, width: int, expected: str) -> None:
    assert cut(text, width) == expected
    assert width_of(cut(text, width)) <= max(width, 1)


def test_colours_take_no_width_and_end_where_a_line_is_cut() -> None:
    line = "n1  \x1b[32mREADY\x1b[0m  and more"
    assert cut_line(line, 100) == line
    assert cut_line(line, 7) == "n1  \x1b[32mRE…\x1b[0m"
    assert output.escaped("a\x1b[31mb") == "a\\x1b[31mb"


def test_long_values_are_cut_on_a_terminal_only_and_never_what_names_the_row(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [{"id": "n" * 20, "why": "日本語 " * 10, "end": "x"}, {"id": "n2", "why": "short", "end": "y"}]
    columns = [("NODE", lambda r: r["id"]), ("WHY", lambda r: r["why"]), ("END", lambda r: r["end"])]
    wide = [("MORE", lambda r: "m")]
    monkeypatch.setenv("COLUMNS", "50")
    for form in ("table", "wide"):
        print_listing(lambda: rows, columns, wide=wide, output=form)
        lines = terminal.written().splitlines()[1:]
        if form == "table":
            assert lines[0].startswith("n" * 20 + "  日本語 日本語")
            assert lines[0].endswith("日本語…    x")
            assert width_of(lines[0]) <= 50
            assert lines[1].split() == ["n2", "short", "y"]
            assert width_of(lines[0]) == width_of(lines[1]), "what follows is aligned"
        else:
            assert lines[0].endswith("日本語   x    m")


def test_columns_are_left_out_where_a_terminal_is_narrow_and_a_moment_is_never_cut(
    terminal: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    moment = "2026-11-23T02:50:28.866Z"
    rows = [{"id": "j-1", "queue": "research.llm", "at": moment, "why": "it waits for a long time " * 3}]
    columns = [(key.upper(), lambda r, key=key: r[key]) for key in rows[0]]
    shown = {}
    for width in (61, 47, 20):
        monkeypatch.setenv("COLUMNS", str(width))
        print_listing(lambda: rows, columns, spare=("QUEUE", "WHY"), output="table")
        titles, row = terminal.written().splitlines()
        assert moment in row
        shown[width] = titles.split()
        assert max(width_of(titles), width_of(row)) <= max(width, len(f"j-1  {moment}"))
    assert shown == {61: ["ID", "QUEUE", "AT", "WHY"], 47: ["ID", "AT", "WHY"], 20: ["ID", "AT"]}
    monkeypatch.setattr(CaptureIO, "isatty", lambda self: False)
    print_listing(lambda: rows, columns, spare=("QUEUE", "WHY"), output="table")
    assert terminal.written().split()[:4] == ["ID", "QUEUE", "AT", "WHY"], "a pipe gets all of it"
