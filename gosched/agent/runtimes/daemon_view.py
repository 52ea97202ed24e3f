"""Whether a container daemon sees this host as the agent does.

A docker task needs both: its supervisor follows the container's process by pid, and the daemon binds the task's
directory by its path. An agent that runs in a container itself has a view of its own, unless it is given the daemon's.
"""

from __future__ import annotations

import os
import socket
import struct
from pathlib import Path

_UCRED = struct.Struct("=iII")


def difference(line: socket.socket, directory: Path) -> str:
    """Return why tasks of the daemon at the other end of `line` cannot be followed, or nothing. `directory`: the
    agent's own."""
    pid = _UCRED.unpack(line.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))[0]
    if pid == 0:  # of a namespace that is not seen from here
        return "the daemon's processes are not seen from the agent's container: run it with --pid=host"
    theirs = Path(f"/proc/{pid}/root", *directory.parts[1:])
    try:
        is_same = os.path.samestat(os.stat(theirs), os.stat(directory))
    except FileNotFoundError:
        is_same = False
    except OSError:  # it may not look: an agent that is not root
        return ""
    if not is_same:
        volume = f"--volume={directory}:{directory}"
        return f"the daemon has another {directory} than the agent's container: run it with {volume}"
    return ""
