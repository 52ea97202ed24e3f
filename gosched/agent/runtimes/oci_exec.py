"""Runs a command beside a task on a root filesystem: with the account, limits, environment and directory of the task.

    python -I -S oci_exec.py BUNDLE CGROUP RUNTIME... -- [--tty] [--env NAME=VALUE]... CONTAINER COMMAND...

Invariant: the command may do what the task may. Left to themselves crun starts it as root in /, without the groups
and the environment, and outside of the task's cgroup. CGROUP empty: the runtime finds it. Standard library only.
"""

from __future__ import annotations

import json
import os
import sys


def main(bundle: str, cgroup: str, words: list[str]) -> None:
    if cgroup:
        with open(f"{cgroup}/cgroup.procs", "w", encoding="ascii") as file:
            file.write("0")
    with open(f"{bundle}/config.json", encoding="utf-8") as file:
        process = json.load(file)["process"]
    at = words.index("--")
    runtime, rest = words[:at], words[at + 1 :]
    while rest[0].startswith("--"):
        flag = rest.pop(0)
        if flag == "--tty":
            process["terminal"] = True
        elif flag == "--env":
            process["env"].append(rest.pop(0))  # the last one of a name counts
        else:
            sys.exit(f"unknown flag {flag}")
    container, *process["args"] = rest
    # In memory: no other user may read an environment, and nothing is left of it.
    fd = os.memfd_create("process", 0)
    with open(fd, "w", encoding="utf-8", closefd=False) as file:
        json.dump(process, file)
    tty = ["--tty"] if process["terminal"] else []
    os.execvp(runtime[0], [*runtime, "exec", *tty, "--process", f"/proc/self/fd/{fd}", container])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], sys.argv[3:])
