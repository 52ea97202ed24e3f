"""The text of `goschedctl node show`."""

from __future__ import annotations

from gosched.cli.output import (
    Column,
    Json,
    ago,
    bytes_text,
    coloured,
    filled,
    percent,
    seconds_text,
    table,
    titled,
    until,
)
from gosched.config.node_labels import RUNTIME_LABEL

_CLOSED_BY = {
    "operator": "by an operator",
    "agent": "by its own agent",
    "failures": "several tasks in a row failed on it",
}
_GPUS: list[Column] = [
    ("GPU", lambda g: g["gpu"]),
    ("NAME", lambda g: g["name"]),
    ("BUSY", lambda g: percent(g["busy"])),
    ("MEMORY", lambda g: bytes_text(g["memory_bytes"])),
    ("UUID", lambda g: g["uuid"]),
    ("PROBLEM", lambda g: g["problem"]),
]
_TASKS: list[Column] = [
    ("TASK", lambda t: t["id"]),
    ("CPU", lambda t: round(t["cpu"], 2)),
    ("CPU-TIME", lambda t: seconds_text(t["cpu_s"])),
    ("MEMORY", lambda t: bytes_text(t["memory_bytes"]) if t["memory_bytes"] else "-"),  # 0: not measured
    ("PEAK", lambda t: bytes_text(t["memory_peak_bytes"]) if t["memory_peak_bytes"] else "-"),
    ("READ", lambda t: bytes_text(t["read_bytes"])),
    ("WRITTEN", lambda t: bytes_text(t["written_bytes"])),
]


def node_text(node: Json) -> str:
    lines = [
        ("Node", f"{node['id']} ({node['name']}, {node['address']})"),
        ("State", coloured(node["state"]) + _why(node)),
        ("Drain", f"remaining tasks are stopped at {node['drain_by']} ({_in(node)})" if node["drain_by"] else ""),
        ("Agent", f"stopped; its tasks wait for it, {seconds_text(node['away_s'])} in all" if node["away_s"] else ""),
        ("Failed", f"{', '.join(node['failing'])}: recently, because of the node" if node["failing"] else ""),
        ("Heartbeat", _heard(node)),
        ("Isolation", node["isolation"] or "everything is enforced"),
        ("Runtimes", ", ".join(_runtimes(node["labels"]))),
        *_amounts(node),
        *_hardware(node["hardware"]),
        ("Labels", ", ".join(f"{key}={value}" for key, value in node["labels"].items())),
        ("Taints", ", ".join(f"{t['key']}={t['value']}:{t['effect']}" for t in node["taints"])),
    ]
    parts = [titled(lines)]
    if node["usage"] and node["usage"]["gpus"]:
        parts.append(table(node["usage"]["gpus"], [*_GPUS[:2], *filled(node["usage"]["gpus"], _GPUS[2:])]))
    if node["running"]:
        parts.append(table(node["running"], _TASKS))
    return "\n\n".join(parts)


def _why(node: Json) -> str:
    said = [_CLOSED_BY.get(node["closed_by"], ""), node["reason"]]
    text = ": ".join(part for part in said if part)
    return f" ({text})" if text else ""


def _in(node: Json) -> str:
    return f"in {until(node['drain_by'])}"


def _heard(node: Json) -> str:
    none = "none any more" if node["state"] == "DEAD" else "none yet under this leader"
    last = none if node["heartbeat_age_s"] is None else f"{seconds_text(node['heartbeat_age_s'])} ago"
    return f"{last}; registered {ago(node['registered_at'])} ago"


def _runtimes(labels: Json) -> list[str]:
    """Return `process, rootfs (crun)`: every agent has the first, and names the others by labels."""
    found = ["process"]
    for key, value in labels.items():
        if key.startswith(RUNTIME_LABEL):
            name = key.removeprefix(RUNTIME_LABEL)
            found.append(name if value == "true" else f"{name} ({value})")
    return found


def _amounts(node: Json) -> list[tuple[str, str]]:
    """Return `3 of 16 held, 2.10 in use, tasks waited 4% of the last 10 s` for each resource."""
    held, total, usage = node["resources"]["used"], node["resources"]["total"], node["usage"]
    pressure = usage["pressure"] if usage else {"cpu": None, "memory": None, "io": None}
    cpu, memory = (f"{usage['cpu']:.2f}", bytes_text(usage["memory_bytes"])) if usage else (None, None)
    model = f" ({node['gpu_model']})" if node["gpu_model"] else ""
    others = [
        (name, f"{held.get(name, 0)} of {total[name]} held")
        for name in total
        if name not in ("cpu", "memory_bytes", "storage_bytes", "gpu")
    ]
    return [
        ("CPU", _amount(str(held["cpu"]), str(total["cpu"]), cpu, pressure["cpu"])),
        (
            "Memory",
            _amount(bytes_text(held["memory_bytes"]), bytes_text(total["memory_bytes"]), memory, pressure["memory"]),
        ),
        ("GPU", f"{held['gpu']} of {total['gpu']} held{model}" if total["gpu"] else ""),
        (
            "Disk",
            _amount(
                bytes_text(held["storage_bytes"]),
                bytes_text(total["storage_bytes"]) if total["storage_bytes"] else "",
                bytes_text(usage["disk_bytes"]) if usage else None,
                pressure["io"],
            ),
        ),
        *others,
    ]


def _amount(held: str, total: str, used: str | None, pressure: float | None) -> str:
    parts = [
        f"{held} of {total} held" if total else "",
        f"{used} in use" if used is not None else "",
        f"tasks waited {percent(pressure)} of the last 10 s" if pressure is not None else "",
    ]
    return ", ".join(part for part in parts if part)


def _hardware(hardware: Json) -> list[tuple[str, str]]:
    numa = [f"{number}: CPUs {cpus}" for number, cpus in enumerate(hardware["numa_cpus"])]
    bad = ", ".join(map(str, hardware["bad_gpus"]))
    return [
        ("NUMA nodes", "; ".join(numa)),
        ("GPU NUMA", ", ".join(f"{gpu} on {node}" for gpu, node in enumerate(hardware["gpu_numa"]))),
        ("GPU links", _islands(hardware["gpu_links"])),
        ("GPU memory", bytes_text(hardware["gpu_memory_bytes"]) if hardware["gpu_memory_bytes"] else ""),
        ("Bad GPUs", f"{bad}: they have errors and take no work" if bad else ""),
    ]


def _islands(links: list[int]) -> str:
    """Return `0,1 together; 2,3 together`: the GPUs that are linked."""
    islands: dict[int, list[int]] = {}
    for gpu, island in enumerate(links):
        islands.setdefault(island, []).append(gpu)
    return "; ".join(f"{','.join(map(str, gpus))} together" for gpus in islands.values() if len(gpus) > 1)
