"""How long a command takes from its start to its end, against a real cluster on loopback: wall and processor time,
the median. Most of it is the interpreter's start and imports; `import grpc` is beside them, since every command that
asks a master pays for it.

The first run of each command compiles what it imports into a folder of this benchmark, as an installation has it
compiled: also where the environment keeps Python from writing bytecode. Which modules a command leaves out is held by
`tests/cli/test_imports.py`."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.report import Report
from gosched.cli.local_cluster import LocalCluster

GOSCHEDCTL = str(Path(sys.executable).parent / "goschedctl")
JOB = "name: cli-start-{count}\nqueue: default\nrun: 'true'\nresources: {{cpu: 1, memory: 64Mi}}\n"
TIMES = 20


def main() -> None:
    report = Report()
    times = 2 if report.smoke else TIMES
    with LocalCluster(masters=3, agents=0) as cluster, tempfile.TemporaryDirectory() as folder:
        compiled = {"PYTHONPYCACHEPREFIX": f"{folder}/pycache", "PYTHONDONTWRITEBYTECODE": ""}
        environment = {**os.environ, **compiled, "GOSCHED_ENDPOINTS": cluster.endpoints, "HOME": folder}
        files = [Path(folder) / f"{count}.yaml" for count in range(times + 1)]  # a name is submitted once
        for count, file in enumerate(files):
            file.write_text(JOB.format(count=count))
        measured: dict[str, Sequence[Sequence[str]]] = {
            "python": [(sys.executable, "-c", "pass")],
            "import_grpc": [(sys.executable, "-c", "import grpc")],
            "import_gosched_client": [(sys.executable, "-c", "from gosched import GoSchedClient")],
            "help": [(GOSCHEDCTL, "--help")],
            "version": [(GOSCHEDCTL, "version")],
            "status": [(GOSCHEDCTL, "status")],
            "submit": [(GOSCHEDCTL, "submit", str(file)) for file in files],
            "submit_command": [(GOSCHEDCTL, "submit", "--cpu", "1", "--", "true")],
            "job_list": [(GOSCHEDCTL, "job", "list")],
        }
        for name, commands in measured.items():
            # The first run warms up.
            _, *runs = [_run(commands[at % len(commands)], environment) for at in range(times + 1)]
            report.add(f"cli_start_{name}_wall", 1000 * statistics.median(wall for wall, _ in runs), "ms", times)
            report.add(f"cli_start_{name}_cpu", 1000 * statistics.median(cpu for _, cpu in runs), "ms", times)


def _run(command: Sequence[str], environment: dict[str, str]) -> tuple[float, float]:
    """Return the wall time and the processor time of a command, in seconds."""
    began = time.perf_counter()
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    assert process.stderr is not None
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)} ended with {process.returncode}: {said.decode()}")
    return time.perf_counter() - began, usage.ru_utime + usage.ru_stime


if __name__ == "__main__":
    main()
