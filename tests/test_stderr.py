"""Log lines never wait for who reads them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
import time

from gosched.logs.relay import lines_lost
from gosched.logs.render import render
from gosched.stderr import MAX_BYTES, BufferedStderr

LIMIT_S = 30.0

_PROGRAM = """
import sys, logging
from gosched.logs import process
process.begin(form="console", level="info")
print("a line", file=sys.stderr)
logging.getLogger("library").warning("of a library")
raise SystemExit("last words")
"""


def lost(count: int) -> str:
    return render(lines_lost(count), "console")


def told(heard: bytes) -> int:
    """How many lines the reader heard that it missed."""
    return sum(map(int, re.findall(rb"log lines dropped.* count=(\d+)\n", heard)))


def test_a_reader_that_stalls_holds_no_writer_up_and_hears_how_much_it_missed() -> None:
    reading, writing = os.pipe()
    stderr = BufferedStderr(writing, lost)
    line = "x" * 999 + "\n"
    written = threading.Event()

    def write() -> None:
        for _ in range(4 * MAX_BYTES // len(line)):
            stderr.write(line)
            stderr.flush()
        written.set()

    threading.Thread(target=write, daemon=True).start()
    assert written.wait(LIMIT_S), "a write waits for the reader"
    assert stderr.dropped > 2 * MAX_BYTES // len(line)
    heard = b""
    ends = time.monotonic() + LIMIT_S
    while told(heard) < stderr.dropped and time.monotonic() < ends:
        heard += os.read(reading, 1 << 16)
    assert told(heard) == stderr.dropped
    assert heard.count(line.encode()) + stderr.dropped == 4 * MAX_BYTES // len(line)


def test_a_reader_that_is_gone_costs_its_lines_only() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stderr = BufferedStderr(writing, lost)
    stderr.write("a line\n")
    stderr.last_words(LIMIT_S)
    stderr.write("another\n")
    stderr.last_words(LIMIT_S)
    assert stderr.dropped == 0


def test_all_that_was_said_is_out_when_the_process_has_ended() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM], capture_output=True, text=True, timeout=LIMIT_S, check=False
    )
    assert all(words in done.stderr for words in ("a line", "of a library", "last words")), done.stderr
    assert done.returncode == 1
