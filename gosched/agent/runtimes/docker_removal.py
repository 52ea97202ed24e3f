"""Removes the containers of tasks that have ended, and of those that are not known any more.

Invariant: a container that the daemon was asked for is removed with its task, even if the daemon makes it only later.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from docker import errors

from gosched.agent.runtimes.names import AGENT_LABEL, ALLOCATION_LABEL

ASKED = "docker.asked"  # in the allocation's directory: the daemon is to make the container, and has not answered
MADE_S = 15.0  # for that, once its answer is not waited for any more
REMOVED_S = 20.0  # for a daemon that is busy with the container
RETRY_S = 0.1


def remove_of_task(client: Any, name: str, directory: Path) -> None:
    """Remove it, also one that the daemon makes only now, for a launcher that was killed before it had its answer."""
    deadline = time.monotonic() + MADE_S
    while not remove(client, name) and (directory / ASKED).exists() and time.monotonic() < deadline:
        time.sleep(RETRY_S)


def remove(client: Any, name: str) -> bool:
    """Remove a container; it is gone on return. False: there was none. Raises what the daemon says when it cannot."""
    deadline = time.monotonic() + REMOVED_S
    was_there = False
    while True:
        try:
            client.remove_container(name, force=True, v=True)
            return True
        except errors.NotFound:
            return was_there
        except errors.APIError:  # it is being started, or removed by another program
            if time.monotonic() > deadline:
                raise
        was_there = True
        time.sleep(RETRY_S)


def remove_orphans(client: Any, agent: str, before_s: int, known: set[str]) -> None:
    for container in client.containers(all=True, filters={"label": f"{AGENT_LABEL}={agent}"}):
        allocation = container["Labels"].get(ALLOCATION_LABEL, "")
        if allocation and allocation not in known and container["Created"] < before_s:
            remove(client, container["Id"])
            print(allocation)
