"""The spark runtime, with programs that stand for Spark's own. The real ones: tests/integration/test_spark.py."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from gosched.agent.runtimes.interface import CannotRun, Place
from gosched.agent.runtimes.spark import Spark
from gosched.agent.supervisor.launch import Launch
from gosched.core.orders import TaskOrder
from gosched.core.resources import Resources
from gosched.core.spec.isolation import Isolation, Rlimit
from gosched.core.spec.task_group import SPARK_DRIVER, SPARK_WORKER, Runtime
from tests.ports import HeldPort

# Listens as a master does, and says when it is told to end; anything else prints its words.
SPARK_CLASS = """#!/usr/bin/env python3
import signal, socket, sys
if "master" not in sys.argv[1]:
    print(*sys.argv[1:])
    sys.exit(0)
{before}
# First of all: who sees that it listens may end it.
signal.signal(signal.SIGTERM, lambda *_: sys.exit(print("master ended")))
server = socket.create_server((sys.argv[3], int(sys.argv[5])))
while True:
    server.accept()
"""
SUBMIT = "#!/bin/sh\necho $@ with $SPARK_DRIVER_MEMORY\n{then}\n"

LIMIT_S = 60

Make = Callable[..., Path]


@pytest.fixture
def make_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    def make(*, then: str = "exit 7", before: str = "") -> Path:
        (tmp_path / "home" / "jars").mkdir(parents=True)
        _program(tmp_path / "home" / "bin" / "spark-class", SPARK_CLASS.format(before=before))
        _program(tmp_path / "home" / "bin" / "spark-submit", SUBMIT.format(then=then))
        _program(tmp_path / "java" / "bin" / "java", "#!/bin/sh\n")
        monkeypatch.setenv("JAVA_HOME", str(tmp_path / "java"))
        return tmp_path / "home"

    return make


def _program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


def _order(*command: str, memory: int = 2 << 30, **more: object) -> TaskOrder:
    resources = Resources(cpu_millis=2000, memory_bytes=memory)
    return TaskOrder(
        allocation_id="j/driver/0.1",
        task_id="j/driver/0",
        job_id="j",
        runtime=Runtime.SPARK,
        command=command,
        resources=resources,
        **more,  # type: ignore[arg-type]
    )


def _launch(home: Path, order: TaskOrder, **env: str) -> Launch:
    work = home.parent / "work"
    work.mkdir(exist_ok=True)
    place = Place(path=home.parent, work=work, cgroup=None, account=None)
    return Spark(str(home)).launch(order, place, {"PATH": os.environ["PATH"], **env})


@pytest.fixture
def meeting() -> dict[str, str]:
    """Where nobody listens yet."""
    port = HeldPort()
    return {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port.number), "GOSCHED_HOSTS": "127.0.0.1,127.0.0.2"}


def _run(launch: Launch) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        launch.command, env=launch.env, cwd=launch.cwd, capture_output=True, text=True, timeout=LIMIT_S, check=False
    )


@contextlib.contextmanager
def _started(launch: Launch) -> Iterator[subprocess.Popen[str]]:
    """Ended with all that it started, also where the test fails."""
    with subprocess.Popen(
        launch.command, env=launch.env, cwd=launch.cwd, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as task:
        try:
            yield task
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(task.pid, signal.SIGKILL)


def test_the_drivers_end_is_the_end_of_the_master_and_of_the_task(
    make_home: Make, meeting: dict[str, str], tmp_path: Path
) -> None:
    done = _run(_launch(make_home(), _order(SPARK_DRIVER, "app.py", "1"), GOSCHED_TASK_INDEX="0", **meeting))
    assert done.returncode == 7
    said = done.stdout.splitlines()
    url = f"spark://127.0.0.1:{meeting['MASTER_PORT']}"
    port = (tmp_path / "work" / "spark" / "ui-port").read_text()
    assert 0 < int(port) < 1 << 16
    assert said[0] == (
        f"--master {url} --deploy-mode client --conf spark.driver.host=127.0.0.1"
        f" --conf spark.ui.port={port} app.py 1 with 1408m"
    )
    assert said[1] == "master ended"


def test_an_own_port_of_the_ui_is_the_one_that_is_told(
    make_home: Make, meeting: dict[str, str], tmp_path: Path
) -> None:
    order = _order(SPARK_DRIVER, "--conf", "spark.ui.port=4050", "app.py")
    said = _run(_launch(make_home(), order, **meeting)).stdout
    assert said.index("spark.ui.port=4050") > said.index("spark.ui.port=")  # the last one counts
    assert (tmp_path / "work" / "spark" / "ui-port").read_text() == "4050"


def test_a_port_of_the_ui_that_cannot_be_told_is_said(make_home: Make, meeting: dict[str, str]) -> None:
    launch = _launch(make_home(), _order(SPARK_DRIVER, "app.py"), **meeting)
    (Path(launch.cwd) / "spark" / "ui-port").mkdir()
    done = _run(launch)
    assert done.returncode == 125
    assert "cannot write the port of the application's UI" in done.stderr


def test_programs_get_the_secret_of_the_application_in_a_file_of_their_user(
    make_home: Make, meeting: dict[str, str]
) -> None:
    home = make_home()
    (home / "conf").mkdir()
    (home / "conf" / "spark-defaults.conf").write_text("spark.eventLog.enabled true")
    launch = _launch(home, _order(SPARK_DRIVER, "app.py"), GOSCHED_SECRET="5ec3e7", **meeting)
    said = _run(launch).stdout.splitlines()
    file = home.parent / "work" / "spark" / "application.conf"
    assert f"--properties-file {file}" in said[0]
    assert "5ec3e7" not in "".join(said)
    assert file.read_text().split() == [
        "spark.eventLog.enabled",
        "true",
        "spark.authenticate",
        "true",
        "spark.authenticate.secret",
        "5ec3e7",
        "spark.master.rest.enabled",
        "false",
    ]
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_secret_that_cannot_be_written_is_said(make_home: Make, meeting: dict[str, str]) -> None:
    launch = _launch(make_home(), _order(SPARK_DRIVER, "app.py"), GOSCHED_SECRET="5ec3e7", **meeting)
    (Path(launch.cwd) / "spark" / "application.conf").mkdir()
    done = _run(launch)
    assert (done.returncode, done.stdout) == (125, "")
    assert "cannot write the settings with the application's secret" in done.stderr


def test_a_port_that_is_taken_is_said(make_home: Make, meeting: dict[str, str]) -> None:
    with socket.create_server(("127.0.0.1", int(meeting["MASTER_PORT"]))):
        done = _run(_launch(make_home(), _order(SPARK_DRIVER, "app.py"), **meeting))
    assert (done.returncode, done.stdout) == (125, "")
    assert "another program listens on spark://127.0.0.1" in done.stderr


def test_a_master_that_does_not_start_is_said(make_home: Make, meeting: dict[str, str]) -> None:
    home = make_home(before="sys.exit('no room')")
    done = _run(_launch(home, _order(SPARK_DRIVER, "app.py"), **meeting))
    assert done.returncode == 125
    assert done.stderr.splitlines()[0] == "no room"
    assert "Spark's master does not listen on" in done.stderr


def test_a_stop_that_comes_before_the_driver_ends_the_wait_for_the_master(
    make_home: Make, meeting: dict[str, str]
) -> None:
    launch = _launch(
        make_home(before="print('starting', flush=True); import time; time.sleep(600)"),
        _order(SPARK_DRIVER, "app.py"),
        **meeting,
    )
    with _started(launch) as task:
        assert task.stdout is not None
        assert task.stdout.readline() == "starting\n"
        os.kill(task.pid, signal.SIGTERM)
        assert task.wait(LIMIT_S) == 143


def test_a_stop_reaches_the_driver_and_its_end_is_awaited(make_home: Make, meeting: dict[str, str]) -> None:
    home = make_home(then="trap 'sleep 0.2; exit 9' TERM; echo ready; while :; do sleep 0.05; done")
    launch = _launch(home, _order(SPARK_DRIVER, "app.py"), **meeting)
    with _started(launch) as task:
        assert task.stdout is not None
        while task.stdout.readline() != "ready\n":
            pass
        os.killpg(task.pid, signal.SIGTERM)
        assert task.wait(LIMIT_S) == 9


def test_a_worker_waits_for_the_master_and_then_is_sparks_own(make_home: Make, meeting: dict[str, str]) -> None:
    launch = _launch(make_home(), _order(SPARK_WORKER), GOSCHED_TASK_INDEX="1", **meeting)
    with _started(launch) as task:
        time.sleep(0.2)
        assert task.poll() is None
        with socket.create_server(("127.0.0.1", int(meeting["MASTER_PORT"]))):
            said, _ = task.communicate(timeout=LIMIT_S)
    url = f"spark://127.0.0.1:{meeting['MASTER_PORT']}"
    assert said.split() == [
        *("org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.2", "--webui-port", "0", "--cores", "2"),
        *("--memory", "2048m", "--work-dir", str(Path(launch.cwd) / "spark"), url),
    ]


def test_a_single_task_is_words_for_spark_submit(make_home: Make) -> None:
    launch = _launch(make_home(), _order("--class", "org.Pi", "a.jar"), SPARK_LOCAL_DIRS="/fast")
    assert launch.command[1:] == ("--conf", "spark.ui.port=0", "--class", "org.Pi", "a.jar")
    assert launch.env["MASTER"] == "local[2]"
    assert launch.env["SPARK_DRIVER_MEMORY"] == f"{2048 - 384}m"
    assert launch.env["SPARK_LOCAL_DIRS"] == "/fast"


def test_the_tasks_own_isolation_is_kept(make_home: Make) -> None:
    isolation = Isolation(umask=0o077, rlimits=(Rlimit(name="nofile", soft=10, hard=-1),))
    launch = _launch(make_home(), _order("a.py", isolation=isolation))
    assert (launch.umask, launch.rlimits) == (0o077, {"nofile": (10, -1)})


def test_a_node_without_spark_or_java_says_which(make_home: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    home = make_home()
    assert Spark(str(home)).problem() == ""
    assert Spark("/nowhere").problem().startswith("/nowhere holds no Spark")
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    assert Spark(str(home)).problem().startswith("no Java is installed")
    with pytest.raises(CannotRun) as caught:
        _launch(home, _order("a.py"))
    assert (caught.value.reason, caught.value.blames_node) == ("RUNTIME_NOT_SUPPORTED", True)


@pytest.mark.parametrize(
    ("order", "reason"),
    [(_order(SPARK_WORKER), "BAD_ORDER"), (_order("a.py", memory=256 << 20), "TOO_LITTLE_MEMORY")],
)
def test_an_order_that_spark_cannot_carry_out_is_refused(make_home: Make, order: TaskOrder, reason: str) -> None:
    with pytest.raises(CannotRun) as caught:
        _launch(make_home(), order)
    assert caught.value.reason == reason
