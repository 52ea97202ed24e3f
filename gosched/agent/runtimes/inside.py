"""What a container of either kind shows its task: the working directory, volumes, an environment.

Invariant: of the host it shows what the agent's settings allow and the task's user could reach.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from gosched.agent.acting import as_account
from gosched.agent.beneath import reopen
from gosched.agent.host_paths import NotAllowed, open_host_path
from gosched.agent.runtimes.environment import OF_THE_USER
from gosched.agent.runtimes.interface import CannotRun, Place
from gosched.agent.supervisor.launch import Account
from gosched.core.orders import TaskOrder
from gosched.core.reasons import Reason

WORK = "/work"  # where a task in a container finds its working directory
SECRETS = "/run/secrets"  # and its secrets
SHM_BYTES = 64 << 20  # of /dev/shm, where the task asks for no memory
_OF_THE_NODE = ("PATH", *OF_THE_USER)
_OWN_PATHS = ("/proc", "/sys", "/dev", WORK)


@dataclass(frozen=True, slots=True, kw_only=True)
class AllowedPaths:
    """Prefixes of paths of the host that jobs may name, as host_paths has them."""

    volumes: tuple[str, ...]
    images: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Bind:
    """A file or directory of the host, absolute, at an absolute path of the task's."""

    host: str
    to: str
    read_only: bool = False


def inner_env(order: TaskOrder, place: Place, env: Mapping[str, str], *, path: str) -> dict[str, str]:
    """Return the task's environment: paths below its working directory as they are inside, and nothing of the agent's
    own. `path`: its PATH where the order has none; empty: the image's."""
    own = dict(order.env)
    work = str(place.work)
    if place.account is not None and place.account.home == work:  # no image knows its tenant's account
        own |= dict.fromkeys(OF_THE_USER, "")
    inner = {"PATH": path} if path else {}
    for name, value in env.items():
        if name in own or name not in _OF_THE_NODE:
            inner[name] = WORK + value[len(work) :] if value == work or value.startswith(f"{work}/") else value
    if place.secrets is not None:
        inner["GOSCHED_SECRETS_DIR"] = SECRETS
    return inner


def inner_cwd(order: TaskOrder) -> str:
    """Return the directory it starts in. A relative one is below the task's working directory."""
    return str(PurePosixPath(WORK, order.working_dir))


def binds(order: TaskOrder, place: Place, allowed: Sequence[str]) -> list[Bind]:
    """Return the working directory, then the volumes, which lie below a prefix of `allowed` and are in reach of the
    task's user. Raises CannotRun: VOLUME_NOT_FOUND, VOLUME_NOT_ALLOWED, BAD_VOLUME."""
    found = [Bind(host=str(place.work), to=WORK)]
    for volume in order.isolation.volumes:
        os.close(open_named("volume", volume.host, allowed, place.account))
        to = os.path.normpath(volume.to)
        is_secrets = place.secrets is not None and (to == SECRETS or to.startswith(f"{SECRETS}/"))
        if to == "/" or to.startswith(("/proc/", "/sys/")) or to in _OWN_PATHS or is_secrets:
            raise CannotRun(
                Reason.BAD_VOLUME, f"volume {volume.host}: it cannot stand at {to}, a task has its own there"
            )
        found.append(Bind(host=volume.host, to=to, read_only=volume.read_only))
    return found


def secrets_bind(place: Place) -> Bind | None:
    """Return the task's secrets, in a directory that only the agent can replace; None: it has none."""
    return Bind(host=str(place.secrets.files), to=SECRETS, read_only=True) if place.secrets is not None else None


def open_archive(image: int, name: str, account: Account | None) -> int:
    """Return a descriptor to read an image by, a regular file, with the account's rights. Raises CannotRun."""
    try:
        with as_account(account):
            return reopen(image, os.O_RDONLY)
    except OSError as error:
        raise CannotRun(
            Reason.IMAGE_NOT_ALLOWED, f"image {name} cannot be read by its user: {error.strerror}"
        ) from error


def open_named(what: str, path: str, allowed: Sequence[str], account: Account | None) -> int:
    """Return an O_PATH descriptor of a volume or an image (`what`) that a job names. Raises CannotRun."""
    code = what.upper()
    try:
        return open_host_path(path, allowed, account)
    except NotAllowed as error:
        prefixes = ", ".join(allowed) or "none"
        why = f"{error.strerror} ({what}s.allowed of its agent: {prefixes})"
        raise CannotRun(Reason(f"{code}_NOT_ALLOWED"), f"{what} {path}: {why}") from error
    except PermissionError as error:
        name = account.name if account is not None else "the agent's user"
        raise CannotRun(
            Reason(f"{code}_NOT_ALLOWED"), f"{what} {path} is closed to {name}: {error.strerror}"
        ) from error
    except OSError as error:
        raise CannotRun(Reason(f"{code}_NOT_FOUND"), f"{what} {path} is not on this node: {error.strerror}") from error
