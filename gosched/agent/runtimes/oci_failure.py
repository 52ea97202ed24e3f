"""Tells an OCI runtime that did not start its task from a task that failed, and says what was at fault.

    python -I -m gosched.agent.runtimes.oci_failure BUNDLE RUNTIME CGROUP CODE

Run in the place of a runtime that has ended, with CODE, before it had started the task's first process. Invariant:
of what was started nothing is said here: that is the task's own end.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from gosched.agent.runtimes.faults import Fault, of_runtime, one_line
from gosched.agent.supervisor.records import RESULT, write
from gosched.core.reasons import Reason

LOG = "runtime.log"  # in the bundle: the runtime's own words
STARTED = "started.pid"  # written by the runtime once it has started the task's first process, and not before
OWN_STDERR = "exec 2>&3 3>&-"  # the step before the runtime

_STEPS_LOG = "steps.log"  # the words of what runs before the runtime
_MAX_LOG = 1 << 20
_TOLD_TO_END = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


def explained(words: Sequence[str], bundle: Path, runtime: str, cgroup: str, agents_cgroup: str) -> tuple[str, ...]:
    """Return the words, which run in `bundle`, and run this program if they end before the task started.

    The shell that waits for them has 100 kB of its own. It lets SIGTERM pass, which the runtime gets too.
    """
    explain = [sys.executable, "-I", "-m", "gosched.agent.runtimes.oci_failure", str(bundle), runtime, cgroup]
    # This program's memory is not the task's, whose limit may be less.
    leave = f"echo 0 > {shlex.quote(f'{agents_cgroup}/cgroup.procs')}; " if cgroup and agents_cgroup else ""
    script = (
        "trap : TERM; "
        f"trap 'code=$?; [ -s {STARTED} ] || explain' EXIT; "
        f'explain() {{ {leave}exec {shlex.join(explain)} "$code" 2>&3; }}; '
        f'exec 3>&2 2>{_STEPS_LOG}; "$@"; exit $?'
    )
    return ("sh", "-c", script, "sh", *words)


def main(bundle: Path, runtime: str, cgroup: str, code: int) -> int:
    fault = _fault(bundle, runtime, cgroup, code)
    os.chdir(bundle.parent)
    write(RESULT, {"reason": fault.reason, "detail": fault.detail, "blames_node": fault.blames_node})
    print(fault.detail, file=sys.stderr)
    return fault.exit_code


def _fault(bundle: Path, runtime: str, cgroup: str, code: int) -> Fault:
    # A runtime comes to its point at the end, mount at the beginning.
    text, before = "".join(_words(bundle / LOG)[-1:]), "".join(_words(bundle / _STEPS_LOG)[:1])
    if code - 128 in _TOLD_TO_END:
        detail = f"{runtime} was ended by {signal.Signals(code - 128).name} before the task started"
        return Fault(reason=Reason.START_FAILED, detail=detail, exit_code=code)
    if _reached_its_pids(cgroup):
        return Fault(reason=Reason.BAD_LIMIT, detail=f"its limit of processes is too low to start it: {text or before}")
    if text:
        order = json.loads((bundle / "config.json").read_text())
        volumes = [m for m in order["mounts"] if m["type"] == "bind" and m["source"] != str(bundle.parent / "work")]
        paths = [volume[end] for volume in volumes for end in ("source", "destination")]
        return of_runtime(text, cwd=order["process"]["cwd"], volumes=paths)
    if shutil.which(runtime) is None:
        detail = f"there is no program {runtime} any more: install it, or name another with oci_runtime"
    else:
        detail = f"its start by {runtime} ended with code {code}: {before or 'what it said is in the log of the task'}"
    return Fault(reason=Reason.START_FAILED, detail=detail, blames_node=True)


def _words(log: Path) -> list[str]:
    if not log.exists():
        return []
    with log.open("rb") as file:
        lines = file.read(_MAX_LOG).decode(errors="replace").splitlines()
    return [message for line in lines if (message := _message(line))]


def _message(line: str) -> str:
    """Return the message of a line as it is, or in JSON, where warnings are left out."""
    try:
        record = json.loads(line)
    except ValueError:
        record = None
    if not isinstance(record, dict):
        return one_line(line)
    return one_line(str(record.get("msg", ""))) if record.get("level") == "error" else ""


def _reached_its_pids(cgroup: str) -> bool:
    events = Path(cgroup, "pids.events")
    if not cgroup or not events.exists():
        return False
    return any(line.startswith("max ") and line != "max 0" for line in events.read_text().splitlines())


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3], int(sys.argv[4])))
