"""Real YARN for the tests: two ResourceManagers, of which one is active, and a NodeManager, on loopback.

The tests themselves say which ResourceManager is active: so no ZooKeeper is needed.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from xml.sax.saxutils import escape

import psutil

from tests.ports import HeldPort

from .kerberos import REALM, Kerberos
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
    yarn-site.xml. `kerberos`: without its tickets nobody may do anything here; `open_rpc`: but over RPC, so that the
    NodeManager shows logs, for which it needs Hadoop's native library else."""

    def __init__(
        self,
        folder: Path,
        *,
        scheduler_xml: str,
        managers: Sequence[str] = ("rm1", "rm2"),
        more: Mapping[str, object] | None = None,
        kerberos: Kerberos | None = None,
        open_rpc: bool = False,
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
        self._java = ["java", *JVM, *OPENED, "-cp", self.classpath]
        self._env = dict(os.environ)
        core: dict[str, object] = {"fs.defaultFS": "file:///", "hadoop.tmp.dir": folder / "tmp"}
        site = {**self._site(), **(more or {})}
        if kerberos is not None:
            keytab = kerberos.keytab("HTTP/localhost", "rm/localhost", "nm/localhost")
            self._env |= kerberos.login("rm/localhost", keytab)
            self._java.insert(1, f"-Djava.security.krb5.conf={kerberos.config}")
            core |= _secured(keytab, "simple" if open_rpc else "kerberos")
            site |= _secured_site(keytab)
        (self._conf / "core-site.xml").write_text(properties(core))
        (self._conf / "yarn-site.xml").write_text(properties(site))
        (self._conf / "capacity-scheduler.xml").write_text(scheduler_xml)

    def url(self, name: str) -> str:
        return f"http://localhost:{self._ports[name, 'webapp'].number}"

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
        with (self.folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [*self._java, main, *own], env=self._env, stdout=log, stderr=log, stdin=subprocess.DEVNULL
            )

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
            [*self._java, main, *words],
            env=self._env,
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
        try:
            with urllib.request.urlopen(f"{self.url(name)}/ws/v1/cluster/info", timeout=5) as answer:
                return b"clusterInfo" in answer.read()
        except urllib.error.HTTPError as error:
            return error.code == 401  # with Kerberos
        except OSError:
            return False

    def _has_node(self) -> bool:
        assert self._running["nm"].poll() is None, self.log("nm")[-3000:]
        return "Node Transitioned from NEW to RUNNING" in self.log("rm1")

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
            "yarn.nodemanager.hostname": "localhost",
            "yarn.nodemanager.address": f"localhost:{node['address'].number}",
            "yarn.nodemanager.localizer.address": f"localhost:{node['localizer'].number}",
            "yarn.nodemanager.collector-service.address": f"localhost:{node['collector'].number}",
            "yarn.nodemanager.webapp.address": f"localhost:{node['webapp'].number}",
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


def _secured(keytab: Path, rpc: str) -> dict[str, object]:
    """Return the properties of core-site.xml of a cluster that lets nobody in without a ticket."""
    return {
        "hadoop.security.authentication": rpc,
        "hadoop.http.filter.initializers": "org.apache.hadoop.security.AuthenticationFilterInitializer",
        "hadoop.http.authentication.type": "kerberos",
        "hadoop.http.authentication.kerberos.principal": f"HTTP/localhost@{REALM}",
        "hadoop.http.authentication.kerberos.keytab": keytab,
    }


def _secured_site(keytab: Path) -> dict[str, object]:
    """Return what yarn-site.xml has beside it."""
    return {
        "yarn.resourcemanager.principal": f"rm/localhost@{REALM}",
        "yarn.resourcemanager.keytab": keytab,
        "yarn.resourcemanager.webapp.spnego-principal": f"HTTP/localhost@{REALM}",
        "yarn.resourcemanager.webapp.spnego-keytab-file": keytab,
        "yarn.nodemanager.principal": f"nm/localhost@{REALM}",
        "yarn.nodemanager.keytab": keytab,
        "yarn.nodemanager.webapp.spnego-principal": f"HTTP/localhost@{REALM}",
        "yarn.nodemanager.webapp.spnego-keytab-file": keytab,
    }
