"""The alerts and dashboards in config, against the metrics that daemons serve and the runbook."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from gosched import __version__
from gosched.agent.hardware.disk import Disk, DiskSpace
from gosched.agent.hardware.gpus import Gpu, Gpus
from gosched.agent.hardware.nvml import GpuState
from gosched.agent.hardware.vitals import Pressure, Vitals
from gosched.agent.metrics import AgentFacts, AgentMetrics
from gosched.observe.certificates import CertificateGauges
from gosched.observe.counts import ClusterCounts
from gosched.observe.metrics import BackupGauges, ClusterFacts, MasterMetrics, RaftFacts
from tools import dashboards

ROOT = Path(__file__).parents[2]
ALERTS = ROOT / "deploy/helm/gosched/files/alerts.yml"
RUNBOOK = "https://github.com/gosched/gosched/blob/main/docs/operations/alerts.md#"
ASKING = [ALERTS, *sorted((ROOT / "deploy/helm/gosched/dashboards").glob("*.json"))]
#: A word of its help text says what a metric counts.
UNITS = r"\b([Ss]econds|[Bb]ytes|[Nn]umber|[Rr]atio|[Ii]ndex|[Cc]ores|1)\b"


def master_text() -> str:
    metrics = MasterMetrics(__version__)
    raft = RaftFacts(is_leader=True, term=1, commit_index=1, applied_index=1, feature_level=1, log_bytes=1)
    cluster = ClusterFacts(counts=ClusterCounts(), backup=BackupGauges(age_s=1.0, last_bytes=1, failures=0))
    metrics.show(lambda: raft, lambda: cluster)
    metrics.registry.register(CertificateGauges(list))  # of masters with TLS
    return metrics.text().decode()


def agent_text() -> str:
    gpus = Gpus([Gpu()])
    gpus.states = (GpuState(busy_milli=370),)
    vitals = Vitals(Disk(Path("/data"), 3, lambda _: DiskSpace(total_bytes=10, free_bytes=5)), gpus, lambda: None)
    vitals.pressure = {"cpu": Pressure(milli=12, stalled_us=2_500_000)}
    return AgentMetrics(__version__, vitals, AgentFacts).text().decode()


def names_of(text: str) -> set[str]:
    return set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))


def asked_in(text: str) -> set[str]:
    found = set(re.findall(r"\bgosched_[a-z_]+", text))
    return {re.sub("(?<=_seconds)_(bucket|count|sum)$", "", name) for name in found}


@pytest.mark.parametrize("file", ASKING, ids=lambda file: file.name)
def test_alerts_and_dashboards_ask_for_metrics_that_are_there(file: Path) -> None:
    asked = asked_in(file.read_text())
    assert len(asked) > 5
    assert asked <= names_of(master_text()) | names_of(agent_text())


@pytest.mark.parametrize("text", [master_text(), agent_text()], ids=["master", "agent"])
def test_every_metric_begins_with_our_name_and_its_help_says_the_unit(text: str) -> None:
    families = list(text_string_to_metric_families(text))
    assert len(families) > 10
    for family in families:
        assert family.name.startswith("gosched_")
        if not family.name.endswith("_created"):
            assert re.search(UNITS, family.documentation), f"{family.name}: {family.documentation}"
        for unit in ("seconds", "bytes", "ratio"):
            if re.search(rf"_{unit}(_total)?$", family.name):
                assert unit in family.documentation.lower(), f"{family.name}: {family.documentation}"


def test_each_alert_has_a_severity_and_a_place_in_the_runbook() -> None:
    rules = [rule for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    headings = re.findall(r"^## (Gosched\w+)$", (ROOT / "docs/operations/alerts.md").read_text(), re.MULTILINE)
    assert headings == [rule["alert"] for rule in rules]
    for rule in rules:
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"]["runbook_url"] == RUNBOOK + rule["alert"].lower()
        assert rule["annotations"]["summary"].endswith(".")


def test_each_alert_is_tested_to_fire_and_not_to_fire() -> None:
    rules = [rule["alert"] for group in yaml.safe_load(ALERTS.read_text())["groups"] for rule in group["rules"]]
    well, faults, *_ = yaml.safe_load((ROOT / "config/prometheus/alerts_test.yml").read_text())["tests"]
    fired = faults["promql_expr_test"][0]["exp_samples"]
    assert [re.findall(r'"(\w+)"', sample["labels"])[0] for sample in fired] == rules
    assert all(test["exp_samples"] == [] for test in well["promql_expr_test"])
    shown = {re.match(r"\w+", one["series"])[0] for one in well["input_series"]}  # type: ignore[index]
    shown |= {re.sub("_bucket$|_count$", "", name) for name in shown}
    alike = {"gosched_queue_memory_bytes"}  # as its neighbours for CPUs and GPUs
    assert asked_in(ALERTS.read_text()) - alike <= shown


def test_the_dashboards_are_those_that_the_tool_writes() -> None:
    assert dashboards.main(["--check"]) == 0
