"""Jobs and nodes as `scontrol show` prints them: KEY=VALUE, some on each line."""

from __future__ import annotations

from collections.abc import Sequence

from gosched.api.details import JobDetail, NodeDetail
from gosched.core.resources import MILLI
from gosched.integrations.slurm.batch import COMMAND, Batch, read
from gosched.integrations.slurm.columns import moment, span
from gosched.integrations.slurm.node_lines import STATES, state_of
from gosched.integrations.slurm.queue import Line, is_element
from gosched.integrations.slurm.variables import file_name

Pairs = Sequence[tuple[str, object]]


def job_text(line: Line, detail: JobDetail, *, one_line: bool) -> str:
    """Return the text of a job. Without a value Slurm writes (null)."""
    row, spec = line.row, detail.job.spec
    batch = _batch(detail)
    ranks = (batch.ntasks or sum(batch.ranks)) if batch else spec.task_count
    cpus = spec.demand.cpu_millis / MILLI
    element: Pairs = [("ArrayJobId", row.parent), ("ArrayTaskId", row.element)] if is_element(row) else []
    limit = span(row.timeout_ms / 1000, full=True) if row.timeout_ms else "UNLIMITED"
    lines: list[Pairs] = [
        [("JobId", row.id), *element, ("JobName", line.name)],
        [("UserId", row.user)],
        [("Priority", row.priority), ("Account", row.tenant), ("QOS", (batch and batch.qos) or "normal")],
        [("JobState", line.state), ("Reason", line.reason)],
        [("Dependency", ",".join(f"{d.condition.name.lower()}:{d.job}" for d in row.waits_for))],
        [
            ("Requeue", int(spec.retry.max_restarts > 0)),
            ("Restarts", max(0, row.attempt - 1)),
            ("ExitCode", line.exit_code),
        ],
        [("RunTime", span(line.seconds, full=True)), ("TimeLimit", limit)],
        [("SubmitTime", moment(row.submitted_at_ms))],
        [
            ("StartTime", moment(line.start_ms) or "Unknown"),
            ("EndTime", moment(row.ended_at_ms) or "Unknown"),
        ],
        [("Partition", row.queue), ("NodeList", ",".join(line.nodes))],
        [("NumNodes", len(line.nodes) or spec.task_count), ("NumCPUs", f"{cpus:g}"), ("NumTasks", ranks)],
        [("CPUs/Task", (batch and batch.cpus_per_task) or 1)],
        [("TRES", f"cpu={cpus:g},mem={spec.demand.memory_bytes >> 20}M,gres/gpu={spec.demand.gpu_millis / MILLI:g}")],
    ]
    if batch:
        own = {"SLURM_JOB_ID": row.id, "SLURM_JOB_NAME": batch.name, "SLURM_JOB_USER": batch.user}
        if is_element(row):
            own |= {"SLURM_ARRAY_JOB_ID": row.parent, "SLURM_ARRAY_TASK_ID": str(row.element)}
        own["SLURMD_NODENAME"] = line.nodes[0] if line.nodes else "%N"
        output = f"{batch.chdir}/{file_name(batch.output, own)}"
        lines += [[("WorkDir", batch.chdir)], [("StdOut", output)]]
    return _text(lines, one_line=one_line)


def node_text(name: str, detail: NodeDetail, *, one_line: bool) -> str:
    """Return the text of a node."""
    node, used = detail.node, detail.used
    features = ",".join(f"{key}={value}" if value else key for key, value in node.labels)
    return _text(
        [
            [("NodeName", name), ("NodeAddr", node.address)],
            [("CPUAlloc", used.cpu_millis // MILLI), ("CPUTot", node.capacity.cpu_millis // MILLI)],
            [("RealMemory", node.capacity.memory_bytes >> 20), ("AllocMem", used.memory_bytes >> 20)],
            [("Gres", f"gpu:{node.capacity.gpu_millis // MILLI}"), ("AvailableFeatures", features)],
            [("State", STATES[state_of(detail)].upper()), ("Reason", node.reason)],
        ],
        one_line=one_line,
    )


def _text(lines: Sequence[Pairs], *, one_line: bool) -> str:
    written = [
        " ".join(f"{key}={value if value not in ('', None) else '(null)'}" for key, value in pairs) for pairs in lines
    ]
    return " ".join(written) if one_line else "\n   ".join(written) + "\n"


def _batch(detail: JobDetail) -> Batch | None:
    """Return the record of a job that sbatch made; None: it is another one, or of a release that differs."""
    command = detail.job.spec.groups[0].command
    if command[:1] != (COMMAND,) or len(command) < 2:
        return None
    try:
        return read(command[1])
    except ValueError:
        return None
