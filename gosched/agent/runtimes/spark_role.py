"""One task of a Spark application that is a gang: a program of its own, which imports nothing of gosched.

    spark_role.py driver SCRATCH SPARK_CLASS SPARK_SUBMIT WORDS...    the application's own master, and a driver
    spark_role.py worker SCRATCH SPARK_CLASS WORDS...                 a worker, in which the executors are started
    spark_role.py elastic-worker SCRATCH SPARK_CLASS SECONDS WORDS... one that ends with 0 once it has had none so long

Where the master is say MASTER_ADDR and MASTER_PORT. Invariants: the driver's end is the end of the master, and its exit
code is the task's; where the tasks share a secret (GOSCHED_SECRET), no program without it gets a connection to one of
the application's, and no command line shows it.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

UI_PORT_FILE = "ui-port"  # in SCRATCH; for the agent, which asks the UI how far the application is
MASTER_STARTS_S = 120.0  # a JVM on a node that is busy starting others
_TRY_S = 1.0
_AGAIN_S = 0.1
_LOOK_S = 1.0
_FIRST_EXECUTOR_S = 300.0
_ENDS_S = 5.0
_CANNOT = 125  # an exit code, as of a container that cannot be started


def main(words: Sequence[str]) -> int:
    role, scratch, spark_class, *rest = words
    try:
        settings = _settings(scratch)
    except (OSError, ValueError) as error:
        return _failed(f"cannot write the settings with the application's secret: {error}")
    address = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
    if role == "driver":
        return _drive(spark_class, rest, address, settings, Path(scratch, UI_PORT_FILE))
    if _listens(address, MASTER_STARTS_S):
        if role == "elastic-worker":
            return _attend_worker(_worker(spark_class, [*settings, *rest[1:]], address), float(rest[0]))
        command = _worker(spark_class, [*settings, *rest], address)
        os.execv(command[0], command)
    return _failed(f"no master of Spark listens on {_url(address)} within {MASTER_STARTS_S:g} s")


def _settings(scratch: str) -> list[str]:
    """Write what is set for each program of the application, and return the words that name the file.

    Spark then reads that file in place of spark-defaults.conf, so it begins with what stands there.
    """
    secret = os.environ.get("GOSCHED_SECRET")
    if not secret:
        return []
    folder = os.environ.get("SPARK_CONF_DIR") or Path(os.environ["SPARK_HOME"], "conf")
    try:
        defaults = Path(folder, "spark-defaults.conf").read_text()
    except FileNotFoundError:
        defaults = ""
    # The master's REST server takes jobs from anybody, and does not start beside authentication.
    own = f"spark.authenticate true\nspark.authenticate.secret {secret}\nspark.master.rest.enabled false\n"
    file = Path(scratch, "application.conf")
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w") as draft:
        draft.write(f"{defaults}\n{own}")
    return ["--properties-file", str(file)]


def _worker(spark_class: str, words: Sequence[str], address: tuple[str, int]) -> list[str]:
    host = os.environ.get("SPARK_LOCAL_IP") or address[0]
    worker = ["org.apache.spark.deploy.worker.Worker", "--host", host, "--webui-port", "0"]
    return [spark_class, *worker, *words, _url(address)]


def _attend_worker(command: Sequence[str], leaves_after_s: float) -> int:
    """Run a worker until it ends, or has had no executor for so long; longer for its first one: the driver may have
    much to do before it asks for any."""
    stop = _Stop()
    signal.signal(signal.SIGTERM, stop)
    worker = subprocess.Popen(command)
    stop.program = worker.pid
    stop.tell()  # if it came meanwhile
    leaves_at = time.monotonic() + _FIRST_EXECUTOR_S
    while time.monotonic() < leaves_at:
        try:
            code = worker.wait(_LOOK_S)
        except subprocess.TimeoutExpired:
            if _has_child(worker.pid):
                leaves_at = time.monotonic() + leaves_after_s
            continue
        return 128 - code if code < 0 else code
    _end(worker)
    return 128 + signal.SIGTERM if stop.told else 0


def _has_child(pid: int) -> bool:
    """Return whether a program runs below it: the shell that has become the JVM may have left it an ended one."""
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            state, parent = stat.read_text(errors="replace").rpartition(")")[2].split()[:2]
        except OSError:  # it has ended meanwhile
            continue
        if int(parent) == pid and state != "Z":
            return True
    return False


class _Stop:
    """Handles SIGTERM: passes it on to the program; before there is one it ends the wait for the master."""

    def __init__(self) -> None:
        self.told = False
        self.program = 0

    def __call__(self, number: int, _frame: FrameType | None) -> None:
        self.told = True
        self.tell()

    def tell(self) -> None:
        if self.told and self.program:
            os.kill(self.program, signal.SIGTERM)  # not by Popen, which would take its exit code away from os.wait


def _drive(
    spark_class: str, submit: Sequence[str], address: tuple[str, int], settings: Sequence[str], ui_file: Path
) -> int:
    host, port = address
    if _listens(address, 0):
        return _failed(f"another program listens on {_url(address)}, where Spark's master should be")
    stop = _Stop()
    signal.signal(signal.SIGTERM, stop)
    of_master = ["--host", host, "--port", str(port), "--webui-port", "0"]
    master = subprocess.Popen([spark_class, "org.apache.spark.deploy.master.Master", *of_master, *settings])
    try:
        if not _listens(address, MASTER_STARTS_S, lambda: stop.told or master.poll() is not None):
            if stop.told:
                return 128 + signal.SIGTERM
            return _failed(f"Spark's master does not listen on {_url(address)}: its own words are above")
        to_master = ["--master", _url(address), "--deploy-mode", "client", "--conf", f"spark.driver.host={host}"]
        with _held_port() as held:
            ui_port = held.getsockname()[1]
            try:
                ui_file.write_text(str(_own_ui_port(submit) or ui_port))
            except OSError as error:
                return _failed(f"cannot write the port of the application's UI: {error}")
            # 4040 and the 16 after it would be the bound of drivers on one node.
            of_ui = ["--conf", f"spark.ui.port={ui_port}"]
            driver = subprocess.Popen([submit[0], *to_master, *of_ui, *settings, *submit[1:]])
            stop.program = driver.pid
            stop.tell()  # if it came meanwhile
            try:
                return _until_one_ends(driver, master, stop)
            finally:
                _end(driver)
    finally:
        _end(master)


def _held_port() -> socket.socket:
    """Return a socket whose port nobody else is given. The driver's UI, which binds it with SO_REUSEADDR as well, may
    listen there."""
    held = socket.socket()
    held.bind(("", 0))
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    return held


def _own_ui_port(submit: Sequence[str]) -> str:
    """Return the port of the UI that the application itself asks for; empty: none. Where it is taken Spark tries the
    next ones, and what answers there may be another application's: whoever asks has to look."""
    own = [word.removeprefix("spark.ui.port=") for word in submit if word.startswith("spark.ui.port=")]
    return own[-1] if own else ""


def _until_one_ends(driver: subprocess.Popen[bytes], master: subprocess.Popen[bytes], stop: _Stop) -> int:
    """Return the driver's exit code; 128 and more: a signal. Once it is told to stop, the master may end before it."""
    while True:
        pid, status = os.wait()
        code = os.waitstatus_to_exitcode(status)
        if pid == driver.pid:
            signal.signal(signal.SIGTERM, signal.SIG_IGN)  # all that is left is to end the master
            driver.returncode = code
            return 128 - code if code < 0 else code
        if pid == master.pid:
            master.returncode = code
            if not stop.told:
                return _failed(f"Spark's master ended before the application, with {code}")


def _listens(address: tuple[str, int], limit_s: float, in_vain: Callable[[], bool] = lambda: False) -> bool:
    """Return whether a program listens there within the time. `in_vain` ends the wait."""
    ends = time.monotonic() + limit_s
    while True:
        try:
            socket.create_connection(address, timeout=_TRY_S).close()
            return True
        except OSError:
            if time.monotonic() >= ends or in_vain():
                return False
        time.sleep(_AGAIN_S)


def _end(program: subprocess.Popen[bytes]) -> None:
    if program.poll() is not None:
        return
    program.terminate()
    try:
        program.wait(_ENDS_S)
    except subprocess.TimeoutExpired:
        program.kill()
        program.wait()


def _url(address: tuple[str, int]) -> str:
    host = f"[{address[0]}]" if ":" in address[0] else address[0]
    return f"spark://{host}:{address[1]}"


def _failed(why: str) -> int:
    print(why, file=sys.stderr, flush=True)
    return _CANNOT


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
