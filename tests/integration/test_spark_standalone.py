"""Real Spark: a standalone master with its REST server, and one worker. Needs Java 17 and pyspark."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import subprocess
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from gosched.integrations.spark.errors import SparkBadAnswer, SparkNotFound, SparkUnreachable
from gosched.integrations.spark.monitoring import SparkClient
from gosched.integrations.spark.records import SparkSubmission
from gosched.integrations.spark.submission import SparkMaster
from tests.ports import HeldPort

from .containers import needs
from .support import until

LIMIT_S = 300.0  # of a step: JVMs on cores that others use too

pytestmark = pytest.mark.timeout(3 * LIMIT_S)

# A driver that runs until a file is there.
WAITS = """
import java.nio.file.*;

public class Waits {
    public static void main(String[] words) throws Exception {
        Path here = Path.of(words[0]);
        Files.writeString(here.resolve("begun"), words[1] + " " + System.getProperty("spark.app.name"));
        while (!Files.exists(here.resolve("go"))) Thread.sleep(50);
    }
}
"""


@pytest.fixture
def master(tmp_path: Path) -> Iterator[SparkMaster]:
    """A master whose one worker runs one driver at a time."""
    needs("java")
    found = importlib.util.find_spec("pyspark")
    assert found is not None, "pip install pyspark"
    assert found.origin is not None
    spark_class = Path(found.origin).parent / "bin" / "spark-class"
    port, rest = HeldPort(), HeldPort()
    options = f"-Dspark.master.rest.enabled=true -Dspark.master.rest.port={rest.number}"
    env = {"PATH": os.environ["PATH"], "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_MASTER_OPTS": options}
    of_all = ["--host", "127.0.0.1", "--webui-port", "0"]
    of_master = ["org.apache.spark.deploy.master.Master", "--port", str(port.number)]
    size = ["--cores", "1", "--memory", "600m", "--work-dir", str(tmp_path / "spark")]
    of_worker = ["org.apache.spark.deploy.worker.Worker", *size, f"spark://{port.address}"]
    with contextlib.ExitStack() as ending:
        log = ending.enter_context((tmp_path / "log").open("w"))
        for words in (of_master, of_worker):
            program = ending.enter_context(
                subprocess.Popen([spark_class, words[0], *of_all, *words[1:]], env=env, cwd=tmp_path, stderr=log)
            )
            ending.callback(program.kill)
        until(lambda: "Successfully registered" in _text(log.name), "the worker has registered", LIMIT_S)
        yield SparkMaster(rest.address)


def _text(file: str) -> str:
    return Path(file).read_text(errors="replace")


@pytest.fixture
def jar(tmp_path: Path) -> Path:
    (tmp_path / "Waits.java").write_text(WAITS)
    compiler = ["java", "-m", "jdk.compiler/com.sun.tools.javac.Main"]
    subprocess.run([*compiler, "-d", tmp_path, tmp_path / "Waits.java"], timeout=LIMIT_S, check=True)
    with zipfile.ZipFile(tmp_path / "waits.jar", "w") as made:
        made.write(tmp_path / "Waits.class", "Waits.class")
    return tmp_path / "waits.jar"


def test_drivers_are_submitted_followed_and_killed(master: SparkMaster, jar: Path, tmp_path: Path) -> None:
    submission = SparkSubmission(
        app=f"file:{jar}",
        main_class="Waits",
        args=(str(tmp_path), "two words"),
        conf={"spark.app.name": "waits", "spark.driver.memory": "500m"},
        env={},
    )
    first, second = master.submit(submission), master.submit(submission)
    begun = tmp_path / "begun"
    until(lambda: begun.exists() and begun.read_text(), "a driver runs", LIMIT_S)
    assert begun.read_text() == "two words waits"
    states = {id: master.driver(id) for id in (first, second)}
    assert {one.state for one in states.values()} == {"RUNNING", "SUBMITTED"}
    (runs,) = [one for one in states.values() if one.worker]
    (waits,) = [one for one in states.values() if not one.worker]
    assert master.kill(waits.id, timeout_s=LIMIT_S).state == "KILLED"
    assert master.kill(waits.id).state == "KILLED"  # once more
    (tmp_path / "go").touch()
    until(lambda: master.driver(runs.id).state == "FINISHED", "it has ended", LIMIT_S)
    assert master.kill(runs.id).state == "FINISHED"
    with pytest.raises(SparkNotFound, match="driver-x: the master knows no such driver"):
        master.driver("driver-x")
    with pytest.raises(SparkNotFound):
        master.kill("driver-x")
    with pytest.raises(SparkBadAnswer, match=r"Malformed request: .*CreateSubmissionRequest failed!'$"):
        master._server.ask("v1/submissions/create", post={"action": "CreateSubmissionRequest"})
    with pytest.raises(SparkBadAnswer, match=r"answers 468: .Unknown protocol version 'api'"):
        SparkClient(master._server.url).applications()


def test_a_master_that_does_not_run_is_named() -> None:
    port = HeldPort()
    submission = SparkSubmission(app="a.jar", main_class="A", conf={}, env={})
    with pytest.raises(SparkUnreachable, match=rf"http://{port.address}/v1/.*: it may have been submitted"):
        SparkMaster(port.address).submit(submission)
