"""Real YARN for the tests: two ResourceManagers, of which one is active, and a NodeManager, on loopback.

The tests themselves say which ResourceManager is active: so no ZooKeeper is needed.
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from xml.sax.saxutils import escape

import psutil

from tests.ports import HeldPort

from .support import until

ROOT = Path(__file__).parents[2]
HADOOP = "3.4.2"
CLASSES = "org.apache.hadoop.yarn.server"
#: Little memory, and no time for code that runs once.
JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:-UsePerfData", "-XX:ActiveProcessorCount=2")
OPENED = ("--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/java.lang.reflect=ALL-UNNAMED")
START_S = 180.0
LOG4J = """log4j.rootLogger=INFO,c
log4j.appender.c=org.apache.log4j.ConsoleAppender
log4j.appender.c.target=System.err
log4j.appender.c.layout=org.apache.log4j.PatternLayout
log4j.appender.c.layout.ConversionPattern=%d{ISO8601} %p %c{1}: %m%n
"""


def properties(values: Mapping[str, object]) -> str:
    """Return a configuration as Hadoop reads it."""
    lines = (
        f"<property><name>{name}</name><value>{escape(str(value))}</value></property>" for name, value in values.items()
    )
    return "\n".join(["<configuration>", *lines, "</configuration>", ""])


class Yarn:
    """`with Yarn(folder, scheduler_xml=...) as yarn:` has started all of it, with rm1 active. `more`: properties of
    yarn-site.xml."""

    def __init__(
        self,
        folder: Path,
        *,
        scheduler_xml: str,
        managers: Sequence[str] = ("rm1", "rm2"),
        more: Mapping[str, object] | None = None,
    ) -> None:
        sys.path.insert(0, str(ROOT))
        from tools.hadoop import HADOOP as fetched
        from tools.hadoop import hadoop

        assert fetched == HADOOP

        self._jars = hadoop()
        self.folder = folder
        self._conf = folder / "conf"
        self._managers = managers
        self._ports = {(name, role): HeldPort() for name in ("rm1", "rm2") for role in _RM_ROLES}
        self._node_ports = {role: HeldPort() for role in _NM_ROLES}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._conf.mkdir(parents=True)
        (self._conf / "log4j.properties").write_text(LOG4J)
        (self._conf / "core-site.xml").write_text(
            properties({"fs.defaultFS": "file:///", "hadoop.tmp.dir": folder / "tmp"})
        )
        (self._conf / "yarn-site.xml").write_text(properties({**self._site(), **(more or {})}))
        (self._conf / "capacity-scheduler.xml").write_text(scheduler_xml)

    def url(self, name: str) -> str:
        return f"http://{self._ports[name, 'webapp'].address}"

    @property
    def urls(self) -> tuple[str, str]:
        return self.url("rm1"), self.url("rm2")

    @property
    def classpath(self) -> str:
        return f"{self._conf}:{self._jars}/*"

    def __enter__(self) -> Yarn:
        try:
            for name in self._managers:
                self.start(name)
            for name in self._managers:
                until(lambda name=name: self._answers(name), f"{name} answers", START_S)
            self.activate("rm1")
            self.start("nm")
            until(self._has_node, "the node is there", START_S)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for name in [*self._running]:  # a NodeManager that is asked to stop takes longer than all tests
            self.stop(name)
        self._end_containers()

    def start(self, name: str) -> None:
        """Start rm1, rm2 or nm."""
        main, own = f"{CLASSES}.resourcemanager.ResourceManager", [f"-Dyarn.resourcemanager.ha.id={name}"]
        if name == "nm":
            main, own = f"{CLASSES}.nodemanager.NodeManager", []
        words = ["java", *JVM, *OPENED, "-cp", self.classpath, main, *own]
        with (self.folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(words, stdout=log, stderr=log, stdin=subprocess.DEVNULL)

    def stop(self, name: str) -> None:
        process = self._running.pop(name)
        process.kill()
        process.wait(30)

    def activate(self, name: str) -> None:
        """Make this one the active ResourceManager. The other one is on standby, as both are at first, or gone."""
        self._admin("-transitionToActive", "--forceactive", name)  # does not ask the other one

    def log(self, name: str) -> str:
        return (self.folder / f"{name}.log").read_text(errors="replace")

    def _admin(self, *words: str) -> None:
        main = "org.apache.hadoop.yarn.client.cli.RMAdminCLI"
        done = subprocess.run(
            ["java", *JVM, *OPENED, "-cp", self.classpath, main, *words],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stderr

    def _end_containers(self) -> None:
        """End the containers that the NodeManager has left: they work in its folder."""
        for process in psutil.process_iter(["cwd"]):
            if str(process.info["cwd"] or "").startswith(f"{self.folder}/"):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()

    def _answers(self, name: str) -> bool:
        assert self._running[name].poll() is None, self.log(name)[-3000:]
        return b"clusterInfo" in _get(f"{self.url(name)}/ws/v1/cluster/info")

    def _has_node(self) -> bool:
        assert self._running["nm"].poll() is None, self.log("nm")[-3000:]
        return b'"state":"RUNNING"' in _get(f"{self.url('rm1')}/ws/v1/cluster/nodes")

    def _site(self) -> dict[str, object]:
        folder, node = self.folder, self._node_ports
        of_managers = {
            f"yarn.resourcemanager.{_RM_ROLES[role]}.{name}": port.address for (name, role), port in self._ports.items()
        }
        return {
            "yarn.resourcemanager.ha.enabled": "true",
            "yarn.resourcemanager.ha.rm-ids": "rm1,rm2",
            "yarn.resourcemanager.cluster-id": "tests",
            "yarn.resourcemanager.ha.automatic-failover.enabled": "false",
            **of_managers,
            "yarn.resourcemanager.recovery.enabled": "true",
            "yarn.resourcemanager.store.class": f"{CLASSES}.resourcemanager.recovery.FileSystemRMStateStore",
            "yarn.resourcemanager.fs.state-store.uri": f"file://{folder}/state",
            "yarn.resourcemanager.scheduler.class": f"{CLASSES}.resourcemanager.scheduler.capacity.CapacityScheduler",
            "yarn.resourcemanager.nodemanagers.heartbeat-interval-ms": 200,
            "yarn.resourcemanager.connect.retry-interval.ms": 200,
            "yarn.client.failover-sleep-base-ms": 100,
            "yarn.client.failover-sleep-max-ms": 500,
            "yarn.scheduler.minimum-allocation-mb": 64,
            "yarn.scheduler.minimum-allocation-vcores": 1,
            "yarn.nodemanager.hostname": "127.0.0.1",
            "yarn.nodemanager.address": node["address"].address,
            "yarn.nodemanager.localizer.address": node["localizer"].address,
            "yarn.nodemanager.collector-service.address": node["collector"].address,
            "yarn.nodemanager.webapp.address": node["webapp"].address,
            "yarn.nodemanager.resource.memory-mb": 4096,
            "yarn.nodemanager.resource.cpu-vcores": 32,
            "yarn.nodemanager.vmem-check-enabled": "false",
            "yarn.nodemanager.pmem-check-enabled": "false",
            "yarn.nodemanager.local-dirs": folder / "local",
            "yarn.nodemanager.log-dirs": folder / "logs",
            "yarn.nodemanager.disk-health-checker.max-disk-utilization-per-disk-percentage": "99.9",
        }


_RM_ROLES = {
    "client": "address",
    "scheduler": "scheduler.address",
    "tracker": "resource-tracker.address",
    "admin": "admin.address",
    "webapp": "webapp.address",
}
_NM_ROLES = ("address", "localizer", "collector", "webapp")


def _get(url: str) -> bytes:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bytes(answer.read())
    except OSError:
        return b""
