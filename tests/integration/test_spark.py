"""Real Spark: an application as a gang, and a single spark-submit. Needs Java 17 and pyspark, cgroup v2 and root."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from gosched.agent.runtimes.spark import Spark
from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.config import parse_job_file
from gosched.core.records.job import JobState
from gosched.core.records.task import TaskState
from gosched.core.resources import Resources
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.task_group import Runtime
from gosched.integrations.spark.errors import SparkNotFound, SparkUnreachable
from gosched.integrations.spark.monitoring import SparkClient
from gosched.integrations.spark.properties import read_properties
from tests.integrations.spark.test_properties import READ
from tests.ports import HeldPort

from .containers import Running, make_place, needs, order, start
from .support import PATIENT, goschedctl, until

EXAMPLES = Path(__file__).parents[2] / "examples"
TWO_CPUS = AgentShape(resources={"cpu": 2, "memory": "4Gi"})
RUN_S = 600.0  # of a whole application: seven JVMs on two cores that others use too


pytestmark = pytest.mark.timeout(3 * RUN_S)


@pytest.fixture(scope="module", autouse=True)
def _spark() -> None:
    needs("java")
    assert importlib.util.find_spec("pyspark") is not None, "pip install pyspark"
    assert Spark("").problem() == ""


def example() -> JobSpec:
    text = (EXAMPLES / "spark.yaml").read_text().replace("/opt/gosched/examples", str(EXAMPLES))
    (spec,) = parse_job_file(text, "spark.yaml")
    return spec


def jvms_of(directory: Path) -> list[int]:
    """Programs that run below a directory, or name it."""
    found = []
    for process in psutil.process_iter(["pid", "cmdline", "environ"]):
        words = [*(process.info["cmdline"] or []), (process.info["environ"] or {}).get("SPARK_LOCAL_DIRS", "")]
        if any(str(directory) in word for word in words) and "org.apache.spark" in " ".join(words):
            found.append(process.info["pid"])
    return found


def strays() -> set[Path]:
    """What JVMs leave where everybody writes, but for what belongs to one that runs: it is somebody else's."""
    found = {path for name in ("spark-*", "blockmgr-*", "hsperfdata_*/*") for path in Path("/tmp").glob(name)}
    return {path for path in found if not (path.name.isdigit() and psutil.pid_exists(int(path.name)))}


@pytest.fixture
def gang(tmp_path: Path) -> Iterator[list[Running]]:
    """The tasks of the example, driver first, without any agent."""
    port = HeldPort()
    members = [group for group in example().groups for _ in range(group.count)]
    tasks = []
    for rank, group in enumerate(members):
        env = {
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port.number),
            "GOSCHED_HOSTS": ",".join(["127.0.0.1"] * len(members)),
            "GOSCHED_TASK_INDEX": str(rank),
        }
        wanted = order(*group.command, runtime=Runtime.SPARK, image="", number=rank, env=env, resources=group.resources)
        tasks.append(start(Spark(""), wanted, make_place(tmp_path, wanted)))
    yield tasks
    for task in tasks:
        if not task.ended:
            task.kill()
            task.end()


def test_a_driver_that_is_told_to_stop_takes_its_master_along(gang: list[Running], tmp_path: Path) -> None:
    driver = gang[0]
    said = driver.place.path / "stderr"
    until(lambda: "Registered executor" in said.read_text(errors="replace"), "an executor is there", RUN_S)
    driver.signal(15)
    assert driver.end()[0] == 143
    for worker in gang[1:]:
        worker.signal(15)
        assert worker.end()[0] == 143
    assert jvms_of(tmp_path) == []


JAVA_READS = """
import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;

public class Reads {
    public static void main(String[] files) throws Exception {
        PrintStream out = new PrintStream(System.out, true, "UTF-8");
        for (String file : files) {
            Properties found = new Properties();
            found.load(new InputStreamReader(new FileInputStream(file), StandardCharsets.UTF_8));
            for (String key : new TreeSet<String>(found.stringPropertyNames()))
                out.print(key + "\\0" + found.getProperty(key) + "\\0");
            out.print("\\1");
        }
    }
}
"""


def test_a_properties_file_is_read_as_java_reads_it(tmp_path: Path) -> None:
    program = tmp_path / "Reads.java"
    program.write_text(JAVA_READS)
    files = [tmp_path / f"{number}.conf" for number in range(len(READ))]
    for file, text in zip(files, READ, strict=True):
        file.write_bytes(text.encode())
    ran = subprocess.run(["java", program, *files], capture_output=True, timeout=RUN_S, check=True)
    for text, said in zip(READ, ran.stdout.decode().split("\1")[:-1], strict=True):
        words = said.split("\0")[:-1]
        # Spark itself takes blanks off the ends of values.
        assert {key: value.strip(" \t") for key, value in zip(words[::2], words[1::2], strict=True)} == read_properties(
            text
        )


def test_a_single_task_is_one_spark_submit_whose_exit_code_is_its_own(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(
        "import os, sys\n"
        "from pyspark import SparkContext\n"
        "spark = SparkContext()\n"
        "print(spark.master, spark.parallelize(range(10)).sum())\n"
        "sys.exit(3)\n"
    )
    resources = Resources(cpu_millis=2000, memory_bytes=1 << 30)
    wanted = order(str(app), runtime=Runtime.SPARK, image="", resources=resources)
    before = strays()
    code, out, err = start(Spark(""), wanted, make_place(tmp_path, wanted)).end(RUN_S)
    assert (code, out) == (3, "local[2] 45\n"), err
    assert strays() <= before


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(masters=1, agents=[TWO_CPUS] * 2, settings=PATIENT) as cluster:
        yield cluster


def test_the_example_runs_on_a_cluster_and_ends_with_its_driver(cluster: LocalCluster) -> None:
    with cluster.client() as client:
        client.submit(example())
        done = client.wait("spark-words", timeout=RUN_S)
        logs = b"".join(chunk.data for chunk in client.logs("spark-words")).decode(errors="replace")
    assert done.state is JobState.SUCCEEDED, f"{done.job.reason} {done.job.detail}\n{logs}"
    assert "green: 3000" in logs
    assert "106 words in 3000 verses" in logs
    driver, *executors = done.tasks
    assert (driver.state, driver.exit_code) == (TaskState.SUCCEEDED, 0)
    assert {task.state for task in executors} == {TaskState.KILLED}
    assert jvms_of(cluster.data_dir) == []


PAUSES = """
import os, sys, time
from pathlib import Path
from pyspark import SparkContext
here = Path(sys.argv[1])
spark = SparkContext()
print("authenticates:", spark.getConf().get("spark.authenticate"))
print("before", spark.parallelize(range(10), 4).sum())
(here / "half").touch()
while not (here / "go").exists():
    time.sleep(0.1)
print("after", spark.parallelize(range(100), 4).map(lambda n: os.environ["GOSCHED_ATTEMPT"] == "1").sum())

def waits(n):
    while n and not (here / "end").exists():
        time.sleep(0.1)
    return n

print("at last", spark.parallelize(range(4), 4).map(waits).map(lambda n: (n % 2, n)).groupByKey().count())
"""


def test_an_application_outlives_the_agents_of_its_driver_and_its_executors(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    app = tmp_path / "app.py"
    app.write_text(PAUSES)
    (tmp_path / "events").mkdir()
    history = HeldPort()
    conf = {
        "spark.eventLog.enabled": True,
        "spark.eventLog.dir": f"file://{tmp_path}/events",
        "spark.master.ui.historyServerUrl": f"http://{history.address}/",
    }
    spark = {"app": str(app), "args": [str(tmp_path)], "conf": conf}
    spark["executors"] = {"count": 2, "resources": {"cpu": 1, "memory": "1200Mi"}}
    with cluster.client() as client:
        client.submit(json.dumps({"name": "outlives", "spark": spark}))
        until((tmp_path / "half").exists, "it is at its half", RUN_S)
        assert len({task.node_id for task in client.get_job("outlives").tasks}) == 2
        _check_authentication(cluster.data_dir)
        for agent in cluster.agents.values():
            agent.kill()
        for agent in cluster.agents.values():
            agent.start()
        (tmp_path / "go").touch()
        said = _check_progress(cluster)
        (tmp_path / "end").touch()
        done = client.wait("outlives", timeout=RUN_S)
        logs = b"".join(chunk.data for chunk in client.logs("outlives")).decode(errors="replace")
    assert done.state is JobState.SUCCEEDED, f"{done.job.reason} {done.job.detail}\n{logs}"
    assert "authenticates: true\nbefore 45\n" in logs
    assert "after 100\nat last 2\n" in logs
    assert said["history"] == f"http://{history.address}/history/{said['application']}/"
    _check_history(tmp_path, history.number, said)
    with cluster.client() as client:
        assert not any(use.spark for use in client.list_usage(job="outlives").tasks)
    assert [task.attempt for task in done.tasks] == [1, 1, 1]
    assert [task.state for task in done.tasks] == [TaskState.SUCCEEDED, TaskState.KILLED, TaskState.KILLED]
    assert jvms_of(cluster.data_dir) == []


def _check_progress(cluster: LocalCluster) -> dict[str, Any]:
    """Of four tasks of a stage one is done, and two run on the two executors. What job show says is returned."""
    seen: list[dict[str, Any]] = []

    def is_there() -> bool:
        shown = goschedctl(cluster.endpoints, "job", "show", "outlives", "-o", "json").stdout
        seen.append(json.loads(shown)["spark"] or {})
        stages = seen[-1].get("stages", [])
        return bool(stages and stages[0]["done"] == 1 and stages[0]["running"] == 2)

    until(is_there, "one task is done", RUN_S)
    said = seen[-1]
    (stage,) = said["stages"]
    assert (stage["tasks"], stage["failed"], said["more_stages"]) == (4, 0, 1)
    text = goschedctl(cluster.endpoints, "job", "show", "outlives").stdout
    assert f"Spark UI {said['ui']}" in " ".join(text.split())
    assert "1/4 25% 2 0 groupByKey at" in " ".join(text.split())
    assert text.endswith("and 1 more stage\n")
    (app,) = SparkClient(said["ui"]).applications()
    assert (app.id, app.completed, app.ended_ms) == (said["application"], False, 0)
    assert {one.id for one in SparkClient(said["ui"]).executors(app.id)} == {"driver", "0", "1"}
    return said


def _check_history(directory: Path, port: int, said: dict[str, Any]) -> None:
    """The address on the history server is the application's, once it has ended."""
    home = Path(importlib.util.find_spec("pyspark").origin).parent  # type: ignore[union-attr, arg-type]
    options = f"-Dspark.history.fs.logDirectory=file://{directory}/events -Dspark.history.ui.port={port}"
    environment = {"PATH": os.environ["PATH"], "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HISTORY_OPTS": options}
    words = [home / "bin" / "spark-class", "org.apache.spark.deploy.history.HistoryServer"]
    with (directory / "history").open("w") as log, subprocess.Popen(words, env=environment, stderr=log) as server:
        try:
            client = SparkClient(f"http://127.0.0.1:{port}")

            def has_it() -> bool:
                try:
                    return client.application(said["application"]).completed
                except (SparkUnreachable, SparkNotFound):
                    return False

            until(has_it, "the history server has read the events", RUN_S)
            assert {stage.status for stage in client.stages(said["application"])} == {"COMPLETE"}
            with urllib.request.urlopen(said["history"], timeout=60) as page:
                assert said["application"] in page.read().decode()
        finally:
            server.kill()


def _check_authentication(directory: Path) -> None:
    """A worker that does not know the application's secret gets no connection, and no command line shows it."""
    jvms = [psutil.Process(pid) for pid in jvms_of(directory)]
    (secret,) = {env["GOSCHED_SECRET"] for jvm in jvms if "GOSCHED_SECRET" in (env := jvm.environ())}
    assert not any(secret in word for jvm in jvms for word in jvm.cmdline())
    # Executors name their driver, spark://CoarseGrainedScheduler@...
    url = next(word for jvm in jvms for word in jvm.cmdline() if word.startswith("spark://") and "@" not in word)
    home = Path(importlib.util.find_spec("pyspark").origin).parent  # type: ignore[union-attr, arg-type]
    worker = [home / "bin" / "spark-class", "org.apache.spark.deploy.worker.Worker", "--webui-port", "0", url]
    environment = {"PATH": os.environ["PATH"], "SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(home)}
    words = directory / "stranger"
    with words.open("w") as said, subprocess.Popen(worker, env=environment, cwd=directory, stderr=said) as stranger:
        try:
            until(lambda: "Failed to connect to master" in words.read_text(), "the master refuses it", RUN_S)
        finally:
            stranger.kill()
    assert "Successfully registered" not in words.read_text()


def test_an_application_that_fails_ends_its_executors_and_its_exit_code_is_the_jobs(
    cluster: LocalCluster, tmp_path: Path
) -> None:
    app = tmp_path / "app.py"
    app.write_text(
        "import sys\nfrom pyspark import SparkContext\nprint(SparkContext().appName, sys.argv[1:])\nsys.exit(3)\n"
    )
    submit = [Path(sys.executable).parent / "goschedctl", "spark-submit", "--master", f"gosched://{cluster.endpoints}"]
    options = ["--name", "fails", "--num-executors", "1", "--executor-memory", "500m", "--driver-memory", "600m"]
    ran = subprocess.run(
        [*submit, *options, app, "--day", "1"], capture_output=True, text=True, timeout=RUN_S, check=False
    )
    assert (ran.returncode, ran.stdout) == (3, "fails ['--day', '1']\n"), ran.stderr
    with cluster.client() as client:
        (job,) = [job for job in client.list_jobs() if job.spec.name.startswith("fails-")]
        done = client.get_job(job.id)
    driver, executor = done.tasks
    assert (done.state, done.exit_code, driver.exit_code) == (JobState.FAILED, 3, 3)
    assert executor.state is TaskState.KILLED
    assert jvms_of(cluster.data_dir) == []


GROWS = """
import sys, time
from pathlib import Path
from pyspark import SparkContext
spark = SparkContext()

def executors():
    return spark._jsc.sc().getExecutorMemoryStatus().size() - 1

def waits(n):
    time.sleep(8)
    return n

print("at first", executors())
print("sum", spark.parallelize(range(12), 12).map(waits).sum(), "with", executors())
while not Path(sys.argv[1]).exists():
    time.sleep(0.5)
print("at last", executors(), spark.parallelize(range(4), 2).sum())
"""


def test_executors_come_while_there_is_work_and_give_their_places_back(cluster: LocalCluster, tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(GROWS)
    go = tmp_path / "go"
    spark = {"app": str(app), "args": [str(go)], "conf": {"spark.dynamicAllocation.executorIdleTimeout": "5s"}}
    spark["executors"] = {"count": 3, "resources": {"cpu": 1, "memory": "1200Mi"}}
    with cluster.client() as client:
        client.submit(json.dumps({"name": "grows", "gang": {"min": "33%", "initial": 2}, "spark": spark}))

        def workers() -> int:
            _, *workers = client.get_job("grows").tasks
            return sum(task.state is TaskState.RUNNING for task in workers)

        until(lambda: workers() == 1, "one executor starts with the driver", RUN_S)
        until(lambda: workers() == 3, "the work is for three executors", RUN_S)
        until(lambda: workers() == 1, "two executors were idle", RUN_S)
        job = client.get_job("grows")
        assert (job.state, job.job.wanted, job.job.unplaced, job.job.attempt) == (JobState.RUNNING, 2, 2, 1)
        go.touch()
        done = client.wait("grows", timeout=RUN_S)
        logs = b"".join(chunk.data for chunk in client.logs("grows")).decode(errors="replace")
    assert done.state is JobState.SUCCEEDED, f"{done.job.reason} {done.job.detail}\n{logs}"
    assert "sum 66 with 3\nat last 1 6\n" in logs
    assert jvms_of(cluster.data_dir) == []
