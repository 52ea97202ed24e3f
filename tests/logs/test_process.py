"""The log of a whole process, as it comes out of its stderr."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import gosched
from tests.log_lines import records

LIMIT_S = 60.0
BEGIN = """
import ctypes, logging, os, sys, threading, warnings
import structlog
from gosched.logs import process
logs = process.begin(form=sys.argv[1], level="info", master="m1")
log = structlog.get_logger()
"""
ABSL = "E0000 00:00:1732304887.123456  12345 ssl.cc:7] Handshake failed\\n"


def run(body: str, form: str = "json") -> subprocess.CompletedProcess[str]:
    words = [sys.executable, "-c", BEGIN + body, form]
    return subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=False)


def test_lines_of_ours_of_libraries_and_of_c_code_are_records_of_one_form() -> None:
    done = run(
        f"""
log.info("ours", job="j1", whole=True)
log.debug("not shown")
logging.getLogger("urllib3").warning("retrying %d", 3)
logging.getLogger("urllib3").info("chatter")
warnings.warn("old name")
ctypes.CDLL(None).write(2, b"{ABSL}", {len(ABSL) - 1})
print("printed", file=sys.stderr)
thread = threading.Thread(target=lambda: 1 / 0, name="worker")
thread.start()
thread.join()
raise ValueError("the end")
"""
    )
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    told = {record["event"]: record for record in records(lines)}
    assert len(told) == len(lines) == 7, done.stderr
    assert {record["master"] for record in told.values()} == {"m1"}
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+Z", record["timestamp"]) for record in told.values())
    assert {event: record["level"] for event, record in told.items()} == {
        "ours": "info",
        "retrying 3": "warning",
        "old name": "warning",
        "Handshake failed": "error",
        "printed": "warning",
        "a thread ended with an exception": "error",
        "uncaught exception": "critical",
    }
    assert (told["ours"]["job"], told["ours"]["whole"]) == ("j1", True)
    assert told["retrying 3"]["logger"] == "urllib3"
    assert told["a thread ended with an exception"]["thread"] == "worker"
    assert "ZeroDivisionError" in told["a thread ended with an exception"]["exception"]


def test_the_console_form_is_text_in_one_line_per_record() -> None:
    done = run(
        """
log.info("two words", job="j1", empty=None, whole=True, said='a "b"')
os.write(2, b"free(): invalid pointer\\n")
logs.say("gosched-master: a line for people")
""",
        "console",
    )
    ours, *others = sorted(done.stderr.splitlines(), key=lambda line: "two words" not in line)
    assert ours.partition(" ")[2] == 'level=info event="two words" job=j1 empty= whole=true said="a \\"b\\"" master=m1'
    assert "gosched-master: a line for people" in others
    assert [line for line in others if 'event="free(): invalid pointer" logger=stderr master=m1' in line]


@pytest.mark.parametrize("end", ["os.abort()", "ctypes.string_at(0)", "os.kill(os.getpid(), 9)", "os._exit(3)"])
def test_what_c_code_says_right_before_the_process_dies_is_not_lost(end: str) -> None:
    for _ in range(3):
        said = ABSL.replace("Handshake failed", "Check failed: that").replace("E0", "F0")
        done = run(f'os.write(2, b"{said}")\n{end}\n')
        assert done.returncode not in (0, 1, 2)
        (record,) = [r for r in records(done.stderr.splitlines()) if r.get("logger") == "absl"]
        assert (record["level"], record["event"], record["where"]) == ("critical", "Check failed: that", "ssl.cc:7")
        if end.startswith(("os.abort", "ctypes")):
            assert "Fatal Python error" in done.stderr, "faulthandler writes to the real stderr"


def test_a_level_that_is_changed_holds_for_libraries_and_c_code_too() -> None:
    done = run(
        """
import fcntl, struct, termios, time
def read_by_relay(fd):
    while struct.unpack("i", fcntl.ioctl(fd, termios.FIONREAD, b"0000"))[0]:
        time.sleep(0.005)
info = b"I0000 00:00:1.5 1 poll.cc:9] polling\\n"
os.write(2, info)
read_by_relay(2)
logs.set_level("debug")
log.debug("ours")
logging.getLogger("asyncio").debug("theirs")
read_by_relay(logs._control)
os.write(2, info)
read_by_relay(2)
logs.set_level("error")
log.warning("no more")
read_by_relay(logs._control)
os.write(2, b"warning: no more\\n")
"""
    )
    assert sorted(record["event"] for record in records(done.stderr.splitlines())) == ["ours", "polling", "theirs"]


def test_a_reader_that_stalls_does_not_hold_up_what_writes_to_descriptor_2() -> None:
    body = """
import time
began = time.monotonic()
for _ in range(4000):
    os.write(2, b"x" * 999 + b"\\n")
sys.stdout.write(f"{time.monotonic() - began}")
sys.stdout.flush()
os._exit(0)
"""
    with subprocess.Popen(
        [sys.executable, "-c", BEGIN + body, "json"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert float(process.stdout.read()) < LIMIT_S / 2
        assert process.wait(LIMIT_S) == 0
        heard = process.stderr.read().decode()
    lost = sum(record.get("count", 0) for record in records(heard.splitlines()))
    assert heard.count("x" * 999) + lost == 4000
    assert lost > 1000


def log_calls() -> Iterator[tuple[str, ast.Call]]:
    root = Path(gosched.__file__).parent
    for file in root.rglob("*.py"):
        text = file.read_text()
        if not re.search(r"\b_?log(ger)?\b|structlog", text):  # parsing takes a while
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                on = ast.unparse(node.func.value)
                levels = ("debug", "info", "warning", "error", "exception")
                if node.func.attr in (*levels, "bind") and re.search(r"(^|\.|_)(log|logger)\b|get_logger", on):
                    yield f"{file.relative_to(root)}:{node.lineno}", node


def test_one_thing_has_one_key_in_all_records() -> None:
    #: What a key was called elsewhere: text of an error is `why`, a code `reason`, another master `peer`.
    not_keys = {"error", "err", "detail", "member", "job_id", "node_id", "task_id", "queue_path", "trace", "traceid"}
    calls = list(log_calls())
    assert len(calls) > 60
    wrong = [(place, key.arg) for place, call in calls for key in call.keywords if key.arg in not_keys]
    assert wrong == []
