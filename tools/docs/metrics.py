"""The references of metrics and alerts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

import yaml
from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric

from gosched import __version__
from gosched.agent.hardware.disk import Disk, DiskSpace
from gosched.agent.hardware.gpus import Gpus
from gosched.agent.hardware.vitals import Vitals
from gosched.agent.metrics import AgentFacts, AgentMetrics
from gosched.observe.certificates import CertificateGauges
from gosched.observe.counts import ClusterCounts
from gosched.observe.metrics import BackupGauges, ClusterFacts, MasterMetrics, RaftFacts
from tools.docs.markdown import cell, code, page, table
from tools.docs.texts import entries

_ALERTS = Path(__file__).parents[2] / "deploy/helm/gosched/files/alerts.yml"
_HEAD = ("metric", "type", "labels", "meaning")
_INTRO = """\
`/metrics` of each master (`server.http_addr`, `server.probe_addr`) and of each agent with an `http_addr` answers in
Prometheus' format. How to scrape, with dashboards: [monitoring](../operations/monitoring.md). A histogram NAME has
`NAME_bucket`, `NAME_sum` and `NAME_count`."""
_LEADER = """\
Only the leader serves these, so ask for the `max` over the masters. `gosched_backup_...` are there where backups are
scheduled."""


def metrics() -> str:
    """Return the page. Raise Incomplete if a label has no text."""
    every, leader = _of_master(None), _of_master(_cluster_facts())
    own = {name: family for name, family in leader.items() if name not in every}
    agent = _of_agent()
    with_labels = (*leader.values(), *agent.values(), *_of_tls().values())
    labels = sorted({label for family in with_labels for label in family[1]} | {"le"})
    texts = entries("metric_labels", labels)
    return page(
        "Metrics",
        _INTRO,
        "## Of every master",
        _table(every),
        "## Of the leader",
        _LEADER,
        _table(own),
        "## Of agents",
        _table(agent),
        "## Of masters and agents with TLS",
        _table(_of_tls()),
        "## Labels",
        table(("label", "values"), [(code(name), texts[name]) for name in labels]),
    )


def alerts() -> str:
    """Return the page of alerts, with their rules."""
    parts = [
        "The rules in [files/alerts.yml](../../deploy/helm/gosched/files/alerts.yml) of the chart. What to do about"
        " each is in its [section of the runbook](../operations/alerts.md)."
    ]
    for group in yaml.safe_load(_ALERTS.read_text())["groups"]:
        rows = [_alert(rule) for rule in group["rules"]]
        parts += [f"## {group['name']}", table(("alert", "severity", "meaning", "fires after", "rule"), rows)]
    return page("Alerts", *parts)


def _alert(rule: Mapping[str, object]) -> tuple[str, ...]:
    name = str(rule["alert"])
    annotations, labels = rule["annotations"], rule["labels"]
    assert isinstance(annotations, dict)
    assert isinstance(labels, dict)
    link = f"[{name}](../operations/alerts.md#{name.lower()})"
    return link, labels["severity"], annotations["summary"], str(rule.get("for", "")), code(cell(str(rule["expr"])))


Families = dict[str, tuple[Metric, tuple[str, ...]]]


def _of_master(cluster: ClusterFacts | None) -> Families:
    raft = RaftFacts(is_leader=True, term=1, commit_index=1, applied_index=1, feature_level=1, log_bytes=1)
    shown = MasterMetrics(__version__)
    shown.show(lambda: raft, lambda: cluster)
    return _families(shown.registry)


def _cluster_facts() -> ClusterFacts:
    return ClusterFacts(counts=ClusterCounts(), backup=BackupGauges(age_s=1.0, last_bytes=1, failures=0))


def _of_agent() -> Families:
    vitals = Vitals(Disk(Path("/"), 3, lambda _: DiskSpace(total_bytes=10, free_bytes=5)), Gpus([]), lambda: None)
    return _families(AgentMetrics(__version__, vitals, AgentFacts)._registry)


def _of_tls() -> Families:
    registry = CollectorRegistry()
    registry.register(CertificateGauges(tuple))
    return _families(registry)


def _families(registry: CollectorRegistry) -> Families:
    """Return each family with the names of its labels, by its name as a scrape shows it."""
    found: Families = {}
    for collector in registry._collector_to_names:
        for family in collector.collect():
            labels = getattr(collector, "_labelnames", getattr(family, "_labelnames", ()))
            suffix = "_total" if family.type == "counter" else ""
            found[family.name + suffix] = (family, tuple(labels))
    return found


def _table(families: Families) -> str:
    def rows() -> Iterable[tuple[str, ...]]:
        for name, (family, labels) in sorted(families.items()):
            yield code(name), family.type, ", ".join(map(code, labels)), family.documentation

    return table(_HEAD, rows())
