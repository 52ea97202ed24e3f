"""Writes the dashboards of Grafana in the chart: one line here for each panel.

python tools/dashboards.py            # writes them anew
python tools/dashboards.py --check    # says whether they are as they would be written
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[1] / "deploy" / "helm" / "gosched" / "dashboards"
SOURCE = {"type": "prometheus", "uid": "${source}"}
MASTERS, AGENTS = 'namespace=~"$namespace",job="$masters"', 'namespace=~"$namespace",job="$agents"'
OF_QUEUE, PENDING, RUNNING = 'queue="$queue"', 'state="PENDING"', 'state="RUNNING"'
RATE = "$__rate_interval"
Panel = tuple[str, str, list[tuple[str, str]]]  # title, unit, (query, legend)


def m(name: str, more: str = "") -> str:
    """Return a selector of the masters' metric."""
    return f"gosched_{name}{{{MASTERS}{',' + more if more else ''}}}"


def a(name: str, more: str = "") -> str:
    """Return a selector of the agents' metric."""
    return f"gosched_{name}{{{AGENTS}{',' + more if more else ''}}}"


def quantile(q: float, metric: str, by: str = "") -> str:
    return f"histogram_quantile({q}, sum by (le{', ' + by if by else ''}) (rate({metric}[{RATE}])))"


def of_queue(name: str) -> list[tuple[str, str]]:
    return [(f"max by (kind) ({m(name, OF_QUEUE)})", "{{kind}}")]


CLUSTER: list[Panel] = [
    ("Leader", "short", [(f"{m('raft_is_leader')} == 1", "{{instance}}")]),
    ("Masters", "short", [(f"max by (state) ({m('masters')})", "{{state}}")]),
    ("Nodes by state", "short", [(f"sum by (state) ({m('nodes')})", "{{state}}")]),
    ("Jobs by state", "short", [(f"sum by (state) ({m('jobs')})", "{{state}}")]),
    ("Why jobs wait", "short", [(f"sum by (reason) ({m('pending_jobs')})", "{{reason}}")]),
    (
        "Wait before the first placement",
        "s",
        [
            (quantile(0.5, m("job_queue_wait_seconds_bucket")), "median"),
            (quantile(0.95, m("job_queue_wait_seconds_bucket")), "95 %"),
        ],
    ),
    (
        "Commits",
        "s",
        [
            (quantile(0.5, m("raft_commit_duration_seconds_bucket")), "median"),
            (quantile(0.99, m("raft_commit_duration_seconds_bucket")), "99 %"),
        ],
    ),
    (
        "Scheduling cycle, 95 %",
        "s",
        [(quantile(0.95, m("scheduling_cycle_duration_seconds_bucket"), "phase"), "{{phase}}")],
    ),
    (
        "Placements and attempts",
        "ops",
        [
            (f"sum(rate({m('placements_total')}[{RATE}]))", "tasks placed"),
            (f"sum by (result) (rate({m('scheduling_attempts_total')}[{RATE}]))", "gangs {{result}}"),
        ],
    ),
    (
        "Entries behind the log",
        "short",
        [(f"scalar(max({m('raft_commit_index')})) - {m('raft_applied_index')}", "{{instance}}")],
    ),
    ("Leader changes in an hour", "short", [(f"max(increase({m('raft_leader_changes_total')}[1h]))", "changes")]),
    ("Clocks against the state's", "s", [(f"max by (master) ({m('clock_offset_seconds')})", "{{master}}")]),
    (
        "State",
        "bytes",
        [(f"max by (kind) ({m('state_bytes')})", "{{kind}}"), (f"max({m('state_bytes_limit')})", "limit")],
    ),
    ("Log on disk", "bytes", [(m("raft_log_bytes"), "{{instance}}")]),
    (
        "Free disk of the masters",
        "percentunit",
        [(f"{m('data_dir_free_bytes')} / {m('data_dir_size_bytes')}", "{{instance}}")],
    ),
    (
        "gRPC by code",
        "ops",
        [(f"sum by (code) (rate({m('grpc_server_handled_total')}[{RATE}]))", "{{code}}")],
    ),
    (
        "HTTP by status",
        "ops",
        [(f"sum by (status) (rate({m('http_request_duration_seconds_count')}[{RATE}]))", "{{status}}")],
    ),
    ("HTTP, 95 %", "s", [(quantile(0.95, m("http_request_duration_seconds_bucket"), "route"), "{{route}}")]),
    (
        "State digests that differ, log lines lost",
        "short",
        [
            (f"sum(increase({m('state_digest_mismatch_total')}[1h]))", "digests"),
            (f"sum(increase({m('log_lines_dropped_total')}[1h]))", "lines"),
        ],
    ),
]
QUEUES: list[Panel] = [
    ("Share against fair share", "percentunit", [(f"max by (queue) ({m('queue_fair_share_ratio')})", "{{queue}}")]),
    ("Pending jobs", "short", [(f"sum by (queue) ({m('jobs', PENDING)})", "{{queue}}")]),
    ("Running jobs", "short", [(f"sum by (queue) ({m('jobs', RUNNING)})", "{{queue}}")]),
    ("Longest wait now", "s", [(f"max by (queue) ({m('pending_job_age_seconds')})", "{{queue}}")]),
    ("Wait, 95 %", "s", [(quantile(0.95, m("job_queue_wait_seconds_bucket"), "queue"), "{{queue}}")]),
    (
        "Why jobs of $queue wait",
        "short",
        [(f"sum by (reason) ({m('pending_jobs', OF_QUEUE)})", "{{reason}}")],
    ),
    ("CPUs of $queue", "short", of_queue("queue_cpu_cores")),
    ("Memory of $queue", "bytes", of_queue("queue_memory_bytes")),
    ("GPUs of $queue", "short", of_queue("queue_gpus")),
    (
        "Victims in an hour",
        "short",
        [(f"sum by (queue) (increase({m('preemption_victims_total')}[1h]))", "{{queue}}")],
    ),
    ("Work lost in an hour", "s", [(f"sum by (queue) (increase({m('lost_work_seconds_total')}[1h]))", "{{queue}}")]),
    (
        "Deadlines missed in an hour",
        "short",
        [(f"sum by (queue) (increase({m('deadlines_missed_total')}[1h]))", "{{queue}}")],
    ),
]
NODES: list[Panel] = [
    ("Nodes by state", "short", [(f"sum by (state) ({m('nodes')})", "{{state}}")]),
    ("Since a living node was heard", "s", [(f"max({m('node_heartbeat_age_seconds')})", "longest")]),
    ("Nodes that take no work", "short", [(f"{a('agent_unfit')} == 1", "{{instance}}")]),
    ("Tasks by state", "short", [(f"sum by (state) ({a('agent_tasks')})", "{{state}}")]),
    ("Tasks by runtime", "short", [(f"sum by (runtime) ({a('agent_tasks')})", "{{runtime}}")]),
    (
        "Start of a task, 95 %",
        "s",
        [(quantile(0.95, a("agent_task_start_duration_seconds_bucket"), "runtime"), "{{runtime}}")],
    ),
    (
        "Stalls",
        "percentunit",
        [(f"max by (resource) (rate({a('agent_psi_stall_seconds_total')}[{RATE}]))", "{{resource}}")],
    ),
    (
        "Waiting for CPU limits",
        "percentunit",
        [(f"rate({a('agent_cpu_throttled_seconds_total')}[{RATE}])", "{{instance}}")],
    ),
    ("OOM kills in an hour", "short", [(f"increase({a('agent_oom_kills_total')}[1h])", "{{instance}}")]),
    ("GPUs in use", "percentunit", [(f"avg by (instance) ({a('agent_gpu_utilization_ratio')})", "{{instance}}")]),
    ("Broken GPUs", "short", [(f"sum by (instance) ({a('agent_gpu_broken')})", "{{instance}}")]),
    ("Orphaned cgroups", "short", [(a("agent_orphan_cgroups"), "{{instance}}")]),
]
DASHBOARDS = {"cluster": CLUSTER, "queues": QUEUES, "nodes": NODES}


def dashboard(name: str) -> dict[str, Any]:
    """Return a dashboard as Grafana imports it."""
    return {
        "title": f"gosched: {name}",
        "uid": f"gosched-{name}",
        "tags": ["gosched"],
        "schemaVersion": 39,
        "version": 1,
        "editable": True,
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": _variables(name)},
        "panels": [_panel(number, panel) for number, panel in enumerate(DASHBOARDS[name])],
    }


def _variables(name: str) -> list[dict[str, Any]]:
    found = [{"name": "source", "type": "datasource", "query": "prometheus"}]
    found.append(_variable("namespace", "label_values(gosched_build_info, namespace)", includeAll=True, allValue=".*"))
    found.append(_variable("masters", 'label_values(gosched_raft_is_leader{namespace=~"$namespace"}, job)'))
    if name == "nodes":
        found.append(_variable("agents", 'label_values(gosched_agent_unfit{namespace=~"$namespace"}, job)'))
    if name == "queues":
        found.append(_variable("queue", f"label_values(gosched_jobs{{{MASTERS}}}, queue)"))
    return found


def _variable(name: str, query: str, **more: object) -> dict[str, Any]:
    asked = {"query": query, "refId": "A"}
    return {"name": name, "type": "query", "datasource": SOURCE, "query": asked, "refresh": 2, **more}


def _panel(number: int, panel: Panel) -> dict[str, Any]:
    title, unit, queries = panel
    return {
        "id": number + 1,
        "title": title,
        "type": "timeseries",
        "datasource": SOURCE,
        "gridPos": {"w": 8, "h": 7, "x": 8 * (number % 3), "y": 7 * (number // 3)},
        "fieldConfig": {"defaults": {"unit": unit, "min": 0 if unit != "s" else None}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + place), "expr": expr, "legendFormat": legend}
            for place, (expr, legend) in enumerate(queries)
        ],
    }


def main(words: list[str]) -> int:
    """Write or check the files; return the exit code."""
    code = 0
    for name in DASHBOARDS:
        file, text = FOLDER / f"{name}.json", json.dumps(dashboard(name), indent=1) + "\n"
        if words != ["--check"]:
            file.write_text(text)
        elif not file.exists() or file.read_text() != text:
            print(f"{file.name} is not as it would be written: python tools/dashboards.py", file=sys.stderr)
            code = 1
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
