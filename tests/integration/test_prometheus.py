"""A real Prometheus scrapes three masters and two agents: every metric of the contract, each query of the alerts and
the dashboards, alerts that fire, and a scrape with TLS."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.client import GoSchedClient
from tests.ports import HeldPort
from tools import dashboards
from tools.chart_tools import chart_tools

from .support import PATIENCE_S, until
from .test_secured import MEMBERS, Secured

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy/helm/gosched/files/alerts.yml"
LEASES = {"lease": {"heartbeat": "300ms", "node_timeout": "2s", "first_lease": "3s"}}
PREEMPTION = {"queues": [{"name": "default", "preemption": "lower_priority"}]}

#: The contract: name, type, labels.
MASTERS = [
    ("build_info", "gauge", {"version"}),
    ("raft_is_leader", "gauge", set()),
    ("raft_term", "gauge", set()),
    ("raft_commit_index", "gauge", set()),
    ("raft_applied_index", "gauge", set()),
    ("raft_leader_changes", "counter", set()),
    ("raft_commit_duration_seconds", "histogram", set()),
    ("grpc_server_handled", "counter", {"method", "code"}),
    ("http_request_duration_seconds", "histogram", {"route", "status"}),
    ("state_digest_mismatch", "counter", set()),
]
OF_THE_CLUSTER = [
    ("pending_jobs", "gauge", {"queue", "reason"}),
    ("jobs", "gauge", {"queue", "state"}),
    ("gangs", "gauge", {"state"}),
    ("queue_fair_share_ratio", "gauge", {"queue"}),
    ("queue_cpu_cores", "gauge", {"queue", "kind"}),
    ("queue_memory_bytes", "gauge", {"queue", "kind"}),
    ("queue_storage_bytes", "gauge", {"queue", "kind"}),
    ("queue_gpus", "gauge", {"queue", "kind"}),
    ("nodes", "gauge", {"state"}),
    ("node_heartbeat_age_seconds", "gauge", set()),
]
#: Counters and histograms of what the leader does.
OF_THE_LEADER = [
    ("scheduling_cycle_duration_seconds", "histogram", {"phase"}),
    ("scheduling_attempts", "counter", {"result"}),
    ("placements", "counter", set()),
    ("job_queue_wait_seconds", "histogram", {"queue"}),
    ("preemption_victims", "counter", {"queue"}),
    ("deadlines_missed", "counter", {"queue"}),
]
AGENTS = [
    ("build_info", "gauge", {"version"}),
    ("agent_tasks", "gauge", {"runtime", "state"}),
    ("agent_task_start_duration_seconds", "histogram", {"runtime"}),
    ("agent_oom_kills", "counter", set()),
    ("agent_cpu_throttled_seconds", "counter", set()),
    ("agent_psi_stall_seconds", "counter", {"resource"}),
    ("agent_gpu_utilization_ratio", "gauge", {"gpu"}),
    ("agent_orphan_cgroups", "gauge", set()),
]
#: Without samples on a machine that has no such thing.
OF_SOME_MACHINES = {"agent_psi_stall_seconds", "agent_gpu_utilization_ratio"}
#: Panels that show nothing where all is well, or on a machine without GPUs or pressure stalls.
EMPTY_PANELS = {"Nodes that take no work", "GPUs in use", "Broken GPUs", "Stalls", "Deadlines missed in an hour"}


class Prometheus:
    """A real one, over its HTTP API."""

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        self.port = HeldPort()
        self._url = f"http://{self.port.address}"
        file = folder / "prometheus.yml"
        file.write_text(yaml.safe_dump({"global": {"scrape_interval": "1s", "evaluation_interval": "1s"}, **config}))
        self.log = folder / "prometheus.log"
        flags = [f"--config.file={file}", f"--storage.tsdb.path={folder / 'data'}"]
        flags.append(f"--web.listen-address={self.port.address}")
        with self.log.open("wb") as log:
            program = str(chart_tools() / "bin" / "prometheus")
            self._process = subprocess.Popen([program, *flags], stdout=log, stderr=log)

    def ask(self, path: str, **query: str) -> Any:
        url = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        with urllib.request.urlopen(url, timeout=10) as answer:
            found = json.load(answer)
        assert found["status"] == "success", (query, found)
        return found["data"]

    def value(self, query: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.ask("query", query=query)["result"]
        return found

    def up(self) -> int:
        with contextlib.suppress(OSError):  # it starts
            return len(self.value("up == 1"))
        return 0

    def firing(self) -> set[str]:
        return {alert["labels"]["alertname"] for alert in self.ask("alerts")["alerts"] if alert["state"] == "firing"}

    def close(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


def agents_with(ports: list[HeldPort]) -> list[AgentShape]:
    return [AgentShape(settings={"http_addr": port.address}) for port in ports]


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[LocalCluster, list[str]]]:
    ports = [HeldPort(), HeldPort()]
    settings = {**LEASES, **PREEMPTION}
    with LocalCluster(tmp_path / "c", masters=3, agents=agents_with(ports), settings=settings) as cluster:
        yield cluster, [port.address for port in ports]


@pytest.fixture
def watched(tmp_path: Path, cluster: tuple[LocalCluster, list[str]]) -> Iterator[tuple[LocalCluster, Prometheus]]:
    """A Prometheus with our alerts, which fire at once."""
    rules = tmp_path / "alerts.yml"
    rules.write_text(re.sub(r"^( +for:) .*$", r"\1 1s", ALERTS.read_text(), flags=re.MULTILINE))
    running, agents = cluster
    scraped = {"gosched-masters": [master.http for master in running.masters.values()], "gosched-agents": agents}
    jobs = [{"job_name": job, "static_configs": [{"targets": targets}]} for job, targets in scraped.items()]
    with contextlib.closing(Prometheus(tmp_path, {"rule_files": [str(rules)], "scrape_configs": jobs})) as prometheus:
        yield running, prometheus


def work(client: GoSchedClient) -> None:
    """Jobs that end, wait, are evicted and miss their deadlines, so that each metric has something to show."""
    client.wait(client.submit("name: ends\nresources: {cpu: 100m}\nrun: 'true'\n").job_id, timeout=PATIENCE_S)
    client.submit("name: too-big\nresources: {cpu: 1000}\nrun: 'true'\n")
    low = "priority: 100\ncount: 2\nresources: {cpu: 4}\nretry: {max: 3, when: [preempted]}\nstop_grace: 1s\n"
    client.submit(f"name: low\n{low}run: sleep 600\n")
    until(lambda: {task.state.name for task in client.get_job("low").tasks} == {"RUNNING"}, "the victim runs")
    client.submit("name: high\npriority: 900\nresources: {cpu: 2}\ndeadline: {in: 1s}\nrun: sleep 600\n")
    until(lambda: client.get_job("high").state.name == "RUNNING", "it has evicted the other")


def check_contract(text: str, contract: list[tuple[str, str, set[str]]]) -> None:
    families = {family.name: family for family in text_string_to_metric_families(text)}
    for name, kind, labels in contract:
        family = families[f"gosched_{name}"]
        assert family.type == kind, name
        found = {frozenset(sample.labels) - {"le"} for sample in family.samples}
        assert found == {frozenset(labels)} or (not found and name in OF_SOME_MACHINES), (name, found)


def scraped(address: str) -> str:
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=PATIENCE_S) as answer:
        text: str = answer.read().decode()
    words = [str(chart_tools() / "bin" / "promtool"), "check", "metrics"]
    done = subprocess.run(words, input=text, capture_output=True, text=True, timeout=60, check=False)
    # A suffix that prometheus_client gives to the moments of its series' births.
    said = [line for line in (done.stdout + done.stderr).splitlines() if "_created " not in line]
    assert not said, said
    return text


def check_metrics(cluster: LocalCluster, agents: list[str]) -> None:
    leader = cluster.leader()
    for master in cluster.masters.values():
        text = scraped(master.http)
        check_contract(text, MASTERS + (OF_THE_CLUSTER + OF_THE_LEADER if master is leader else []))
        if master is not leader:
            assert not [name for name, _, _ in OF_THE_CLUSTER if f"\ngosched_{name}{{" in text], "of the leader alone"
    for address in agents:
        check_contract(scraped(address), AGENTS)


def check_rules(prometheus: Prometheus) -> None:
    rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
    assert [(rule["name"], rule["lastError"]) for rule in rules if rule["health"] != "ok"] == []
    assert len(rules) == sum(len(group["rules"]) for group in yaml.safe_load(ALERTS.read_text())["groups"])


def empty_panels(prometheus: Prometheus) -> list[str]:
    """The queries of the dashboards that return nothing, though they should."""
    values = {"$namespace": ".*", "$masters": "gosched-masters", "$agents": "gosched-agents", "$queue": "default"}
    found = []
    for title, _, queries in (panel for panels in dashboards.DASHBOARDS.values() for panel in panels):
        for query, _ in queries:
            for variable, value in {**values, dashboards.RATE: "20s"}.items():
                query = query.replace(variable, value)
            assert "$" not in query
            if not prometheus.value(query) and title not in EMPTY_PANELS:
                found.append(f"{title}: {query}")
    return found


@pytest.mark.parametrize("words", [("test", "rules", "alerts_test.yml"), ("check", "config", "prometheus.yml")])
def test_alerts_fire_for_their_faults_alone_and_the_example_config_loads(words: tuple[str, ...]) -> None:
    command = [str(chart_tools() / "bin" / "promtool"), *words]
    done = subprocess.run(
        command, cwd=ROOT / "config/prometheus", capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.timeout(180)
def test_metrics_queries_and_alerts_hold_against_a_real_prometheus(
    cluster: tuple[LocalCluster, list[str]], watched: tuple[LocalCluster, Prometheus]
) -> None:
    running, prometheus = watched
    with running.client() as client:
        work(client)
        until(lambda: prometheus.up() == 5, "all targets are scraped")
        leader = running.leader()
        until(lambda: "deadlines_missed_total{" in scraped(leader.http), "the deadline is over")
        check_metrics(running, cluster[1])
        until(lambda: empty_panels(prometheus) == [], "every panel of the dashboards shows something", 30)
        check_rules(prometheus)
        assert {"GoschedNodesDead", "GoschedNoLeader", "GoschedNoQuorum"} & prometheus.firing() == set()

        running.agents["agent-2"].kill()
        until(lambda: {"GoschedNodesDead", "GoschedAgentDown"} <= prometheus.firing(), "the node's death is told")
        others = [master for master in running.masters.values() if master is not leader]
        for master in (leader, others[0]):
            master.kill()
        until(
            lambda: {"GoschedNoLeader", "GoschedNoQuorum", "GoschedMasterDown"} <= prometheus.firing(),
            "that nothing can be committed is told",
        )


class WithProbePorts(Secured):
    """Each master also has a port in plain HTTP, for probes and scrapers."""

    def __init__(self, folder: Path, running: contextlib.ExitStack) -> None:
        self.probes = {member: HeldPort() for member in MEMBERS}
        super().__init__(folder, running)

    def _master(self, member: str) -> dict[str, Any]:
        settings = super()._master(member)
        settings["server"]["probe_addr"] = self.probes[member].address
        return settings


@pytest.mark.timeout(120)
def test_masters_with_tls_are_scraped_with_a_certificate_of_their_authority_or_by_the_probe_port(
    tmp_path: Path,
) -> None:
    with contextlib.ExitStack() as running:
        (tmp_path / "c").mkdir()
        secured = WithProbePorts(tmp_path / "c", running)
        files = {"ca_file": secured.user.ca, "cert_file": secured.user.cert, "key_file": secured.user.key}
        targets = [ports["http"].address for ports in secured.ports.values()]
        one = {"static_configs": [{"targets": targets}], "scheme": "https"}
        with_one = {"job_name": "with", "tls_config": files, **one}
        without = {"job_name": "without", "tls_config": {"ca_file": secured.user.ca}, **one}
        plain = {"job_name": "probes", "static_configs": [{"targets": [p.address for p in secured.probes.values()]}]}
        (tmp_path / "p").mkdir()
        prometheus = Prometheus(tmp_path / "p", {"scrape_configs": [with_one, without, plain]})
        running.callback(prometheus.close)
        until(lambda: prometheus.up() == 6, "the masters are scraped, each twice")
        until(lambda: len(prometheus.value("gosched_raft_is_leader == 1")) == 2, "one leads, by both ports")
        tries = 'min(count_over_time(up{job="without"}[1m])) >= 2'
        until(lambda: prometheus.value(tries), "those without a certificate have been tried")
        assert {found["metric"]["job"] for found in prometheus.value("up == 1")} == {"with", "probes"}
