"""A worker that gives its place back, with programs that stand for Spark's. The real one is in
tests/integration/test_spark.py."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

from gosched.agent.runtimes import spark_role

LIMIT_S = 60
# Attends to a worker which is the words that follow; its first executor is waited for as long as the first word says.
ATTENDS = """
import sys
from gosched.agent.runtimes import spark_role
spark_role._FIRST_EXECUTOR_S, spark_role._LOOK_S = float(sys.argv[1]), 0.05
sys.exit(spark_role._attend_worker(sys.argv[2:], 0.5))
"""


def attend(first_s: float, script: str) -> subprocess.Popen[str]:
    words = [sys.executable, "-c", ATTENDS, str(first_s), "/bin/bash", "-c", script]
    return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)


def test_one_that_gets_no_executor_leaves_with_0() -> None:
    with attend(0.3, "exec sleep 600") as worker:
        assert worker.wait(LIMIT_S) == 0


def test_one_stays_while_an_executor_runs_and_leaves_once_it_has_ended(tmp_path: Path) -> None:
    go = tmp_path / "go"
    with attend(LIMIT_S, f"(while [ ! -e {go} ]; do sleep 0.1; done) & exec sleep 600") as worker:
        time.sleep(1.5)  # longer than it would stay without one
        assert worker.poll() is None
        go.touch()
        assert worker.wait(LIMIT_S) == 0


def test_a_child_that_has_ended_and_nobody_waits_for_is_no_executor() -> None:
    # The shell that becomes the JVM leaves one behind.
    shell = subprocess.Popen(["/bin/bash", "-c", "true & exec sleep 600"])
    try:
        ends = time.monotonic() + LIMIT_S
        while spark_role._has_child(shell.pid) and time.monotonic() < ends:
            time.sleep(0.01)
        assert not spark_role._has_child(shell.pid)
    finally:
        shell.kill()
        shell.wait()


def test_the_end_of_a_worker_is_its_own() -> None:
    with attend(LIMIT_S, "exit 3") as worker:
        assert worker.wait(LIMIT_S) == 3


def test_a_stop_reaches_the_worker() -> None:
    with attend(LIMIT_S, "echo there; exec sleep 600") as worker:
        assert worker.stdout is not None
        assert worker.stdout.readline() == "there\n"
        worker.send_signal(signal.SIGTERM)
        assert worker.wait(LIMIT_S) == 128 + signal.SIGTERM
