"""`--watch`: on a terminal a picture that is brought up to date in its place, on a pipe each change.

Invariant: a picture never scrolls, and what is behind it comes back at the end, with the last picture below. While no
master answers, the last picture stays, and says so.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TypeVar

from gosched.cli.cells import cut_line
from gosched.cli.output import as_line, emit, escaped, has_colour, paint, say
from gosched.client import Unavailable

T = TypeVar("T")

PERIOD_S = 1.0
_ENTER, _LEAVE = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"  # another screen without a cursor, and back
_HOME, _REST_OF_LINE, _REST_OF_SCREEN = "\x1b[H", "\x1b[K", "\x1b[J"
_DIM, _RED, _PLAIN = "\x1b[2m", "\x1b[31m", "\x1b[0m"
#: What changes all the time and is no news: ages, how far clocks are apart, and the count of commands.
_ALWAYS_NEW = frozenset({"heartbeat_age_s", "age_s", "clock_offset_s", "revision"})


def watch(fetch: Callable[[], T], text: Callable[[T], str], output: str) -> None:
    """Show what `fetch` returns, again and again until Ctrl-C. A first answer is there, or the command fails."""
    first = fetch()
    if _draws():
        _in_place(fetch, text, first)
    else:
        _each_change(fetch, text, first, output)


def rows_shown(limit: int | None) -> int | None:
    """Return how many rows of a listing a picture can show, and one more; None: all, since they are written to a pipe.
    `limit`: that were asked for."""
    if not _draws():
        return limit
    rows = shutil.get_terminal_size().lines
    return rows if limit is None else min(rows, limit)


def _draws() -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb"


def _in_place(fetch: Callable[[], T], text: Callable[[T], str], value: T) -> None:
    problem, picture = "", ""
    try:
        with _screen() as wait:
            while True:
                picture = _shown(text(value))
                paint(_HOME + picture + _footer(problem) + _REST_OF_SCREEN)
                if wait(PERIOD_S):
                    continue  # the window has another size
                try:
                    value, problem = fetch(), ""
                except Unavailable as error:
                    problem = str(error)
    finally:
        paint(picture.replace(_REST_OF_LINE, ""))


def _shown(text: str) -> str:
    """Return the lines that fit above the footer, and in place of those that do not a word of them."""
    width, height = shutil.get_terminal_size()
    lines = [escaped(line) for line in text.split("\n")]
    room = max(1, height - 1)
    if len(lines) > room:
        lines = [*lines[: room - 1], "… and more: enlarge the window, or choose fewer"]
    return "".join([f"{cut_line(line, width)}{_REST_OF_LINE}\n" for line in lines])


def _footer(problem: str) -> str:
    width, _ = shutil.get_terminal_size()
    line = cut_line(escaped(problem or "every second, until Ctrl-C"), max(0, width - 11))
    line = f"{time.strftime('%H:%M:%S')}  {line}"
    if has_colour(sys.stdout):
        line = f"{_RED if problem else _DIM}{line}{_PLAIN}"
    return line + _REST_OF_LINE


@contextmanager
def _screen() -> Iterator[Callable[[float], bool]]:
    """Use another screen than the shell's. Give a function that waits, and returns whether the window got another
    size."""
    read_end, write_end = os.pipe()
    os.set_blocking(write_end, False)

    def note(number: int, frame: FrameType | None) -> None:
        os.write(write_end, b"x")

    poller = select.poll()
    poller.register(read_end, select.POLLIN)

    def wait(seconds: float) -> bool:
        resized = poller.poll(1000 * seconds)
        return bool(resized and os.read(read_end, 4096))

    before = signal.signal(signal.SIGWINCH, note)
    paint(_ENTER)
    try:
        yield wait
    finally:
        paint(_LEAVE)
        signal.signal(signal.SIGWINCH, before)
        os.close(read_end)
        os.close(write_end)


def _each_change(fetch: Callable[[], T], text: Callable[[T], str], value: T, output: str) -> None:
    shown, problem = None, ""
    while True:
        if shown is None or _lasting(value) != shown:
            emit(_block(value, text, output, is_first=shown is None))
            sys.stdout.flush()
            shown = _lasting(value)
        time.sleep(PERIOD_S)
        try:
            value, problem = fetch(), ""
        except Unavailable as error:
            if not problem:
                say(f"goschedctl: {error}; it is tried again")
            problem = str(error)


def _block(value: T, text: Callable[[T], str], output: str, *, is_first: bool) -> str:
    """Return a JSON line, a YAML document, or a table that an empty line keeps apart from the one before."""
    if output == "json":
        return as_line(value)
    if output == "yaml":
        return f"---\n{text(value)}"
    return text(value) if is_first else f"\n{text(value)}"


def _lasting(value: object) -> object:
    if isinstance(value, dict):
        return {key: _lasting(item) for key, item in value.items() if key not in _ALWAYS_NEW}
    return [_lasting(item) for item in value] if isinstance(value, list | tuple) else value
