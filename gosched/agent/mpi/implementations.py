"""The MPI that a program is made for, and how its mpiexec is told to start the ranks.

Invariant: a program is started by the implementation that it is linked with; with another one each rank would be the
only one of its world.
"""

from __future__ import annotations

import ipaddress
import mmap
import os
import re
import shlex
import shutil
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

OPEN_MPI, MPICH = "openmpi", "mpich"
_TITLES = {OPEN_MPI: "Open MPI", MPICH: "MPICH"}

_LOOK_S = 30.0
_SHELLS = ("sh", "bash", "dash")
_MOST_WORDS = 200  # of a line for the shell
_NAMES = {
    OPEN_MPI: ("mpiexec.openmpi", "mpirun.openmpi", "orterun", "mpiexec", "mpirun"),
    MPICH: ("mpiexec.hydra", "mpiexec.mpich", "mpiexec", "mpirun"),
}
_SAYS = {OPEN_MPI: re.compile(r"Open MPI|OpenRTE|PRRTE", re.IGNORECASE), MPICH: re.compile("HYDRA|MPICH|Intel")}
# What programs are linked with: libmpi.so.12 is MPICH's ABI, libmpi.so.20 and .40 are Open MPI's.
_LINKED = re.compile(rb"lib(mpich|mpi)(?:cxx|fort|_[a-z]+)*\.so\.(\d+)")
_LEAST_PREFIX = 8  # of the network that all hosts share: below it they have none in common
# Never resolved, since they are no names, and never a host's own: so mpiexec starts no rank by itself.
_FIRST_NODE = ipaddress.IPv4Address("240.0.0.0")


class NoMpi(Exception):
    """Why the program cannot be started, for people."""


@dataclass(frozen=True, slots=True, kw_only=True)
class World:
    """What is started."""

    #: Ranks of each task, in order.
    ranks: tuple[int, ...]
    #: Where each task's node is reached.
    hosts: tuple[str, ...]
    #: File that names the tasks as nodes for mpiexec; written here.
    nodes_file: str
    #: Path of the program to start in place of ssh.
    launch_agent: str
    #: Words that start one rank.
    rank: tuple[str, ...]


def node_name(task: int) -> str:
    return str(_FIRST_NODE + task)


def task_of(node: str) -> int:
    return int(ipaddress.IPv4Address(node)) - int(_FIRST_NODE)


def find(command: Sequence[str], wanted: str) -> tuple[str, str]:
    """Return the implementation and the path of its mpiexec. Raises NoMpi."""
    linked = linked_with(command)
    if wanted and linked and wanted != linked:
        raise NoMpi(f"the program is linked with {_TITLES[linked]}, and the job says implementation: {wanted}")
    kind = wanted or linked
    there = {each: path for each in ([kind] if kind else _TITLES) if (path := _mpiexec(each))}
    if not there:
        raise NoMpi(f"there is no mpiexec of {_TITLES.get(kind, 'Open MPI or MPICH')} in PATH")
    if len(there) > 1:
        raise NoMpi(
            "Open MPI and MPICH are here, and the command does not show which one it is made for: name it with "
            "distributed.implementation"
        )
    return next(iter(there.items()))


def _mpiexec(kind: str) -> str:
    """Return the path of an implementation's mpiexec; empty: there is none."""
    paths = (shutil.which(name) for name in _NAMES[kind])
    return next((path for path in paths if path and _SAYS[kind].search(_output(path, "--version"))), "")


def command_line(kind: str, mpiexec: str, world: World) -> list[str]:
    """Return the command that starts all ranks, and write its list of nodes."""
    mark = " slots=" if kind == OPEN_MPI else ":"
    with open(world.nodes_file, "w", encoding="ascii") as file:
        file.writelines(f"{node_name(task)}{mark}{ranks}\n" for task, ranks in enumerate(world.ranks))
    count = str(sum(world.ranks))
    if kind == MPICH:
        options = ["-launcher", "ssh", "-launcher-exec", world.launch_agent, "-localhost", world.hosts[0]]
        return [mpiexec, *options, "-genvnone", "-f", world.nodes_file, "-n", count, *world.rank]
    settings = {
        "plm_rsh_agent": world.launch_agent,
        "plm_rsh_no_tree_spawn": "1",
        "orte_leave_session_attached": "1",  # the daemon stays a child of its task's member
    }
    if network := _network(world.hosts):
        settings |= {"oob_tcp_if_include": network, "btl_tcp_if_include": network}
    given = {name: value for name, value in settings.items() if f"OMPI_MCA_{name}" not in os.environ}
    options = [word for name, value in given.items() for word in ("--mca", name, value)]
    options += ["--bind-to", "none", "--oversubscribe", "--map-by", "slot"]
    options += ["--allow-run-as-root"] if os.getuid() == 0 else []
    return [mpiexec, *options, "--hostfile", world.nodes_file, "-n", count, *world.rank]


def linked_with(command: Sequence[str]) -> str:
    """Return the implementation of the first program of the command that is linked with one; empty: that is not
    known."""
    for word in _words(command):
        path = shutil.which(word)
        if path is None:
            continue
        if os.path.basename(path).startswith("python"):
            found = _output(path, "-c", "import importlib.util as u; print(u.find_spec('mpi4py.MPI').origin)").strip()
            path = found if os.path.isfile(found) else path
        if linked := _implementation_in(path):
            return linked
    return ""


def _words(command: Sequence[str]) -> list[str]:
    """Return the words of a command that may be programs: the first one, or all of a line for the shell."""
    if os.path.basename(command[0]) not in _SHELLS or list(command[1:2]) != ["-c"] or len(command) < 3:
        return [command[0]]
    lexer = shlex.shlex(command[2], posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        return [*lexer][:_MOST_WORDS]
    except ValueError:  # what the shell may understand all the same
        return []


def _implementation_in(path: str) -> str:
    try:
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as data:
            found = _LINKED.search(data)
            words = found.groups() if found is not None else None
    except (OSError, ValueError):  # it may be executed and not be read, or is empty
        return ""
    if words is None:
        return ""
    return MPICH if words in ((b"mpich", words[1]), (b"mpi", b"12")) else OPEN_MPI


def _output(*command: str) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_LOOK_S, stdin=subprocess.DEVNULL)
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout + done.stderr


def _network(hosts: Sequence[str]) -> str:
    """Return the smallest network that holds all hosts, for daemons and ranks to meet in: a node may have other
    addresses too that do not reach the others. Empty: there is none."""
    try:
        numbers = [int(ipaddress.IPv4Address(socket.gethostbyname(host))) for host in {*hosts}]
    except OSError:
        return ""
    prefix = 32 - (min(numbers) ^ max(numbers)).bit_length()
    if ipaddress.IPv4Address(min(numbers)).is_loopback:
        prefix = 8
    if prefix < _LEAST_PREFIX:
        return ""
    return str(ipaddress.IPv4Network((min(numbers), prefix), strict=False))
