"""The secrets of tasks on this node: in memory alone, on a tmpfs, from a task's start to its end.

Each task has a directory: `files`, the task's own, with what it asked for as files; and `own`, the agent's, with what
its supervisor or its runtime needs: variables, and credentials of a registry.

Invariant: nothing here writes a value to a file system that is no tmpfs.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

import structlog

from gosched.agent.runtimes.interface import CannotRun, SecretPlace
from gosched.agent.supervisor.launch import Account
from gosched.agent.tasks.removal import remove_tree
from gosched.core.orders import TaskOrder
from gosched.core.reasons import Reason
from gosched.core.spec.secret_use import registry_secret, secret_names

_TMPFS = 0x01021994
_PASSABLE = 0o711

libc = ctypes.CDLL(None, use_errno=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class TaskSecrets:
    """What came beside an order."""

    #: By the names of the secrets.
    values: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    #: Why the task cannot start, by the word of the masters; empty: all values are here.
    problem: str = ""


class SecretStore:
    """The directories of all tasks of an agent. `roots`: where they may be; the first that is a tmpfs is taken."""

    def __init__(self, data_dir: Path, roots: Collection[Path] | None = None) -> None:
        self._roots = default_roots() if roots is None else roots
        # Several agents may share a machine.
        self._name = blake2b(os.fsencode(data_dir.absolute()), digest_size=8).hexdigest()

    def put(
        self, order: TaskOrder, given: TaskSecrets | None, name: str, account: Account | None
    ) -> SecretPlace | None:
        """Write what an order asks for to a directory of this name; None: it asks for nothing. Raises CannotRun,
        OSError."""
        of_registry = registry_secret(order.isolation.registry)
        if not order.secrets and not of_registry:
            return None
        values = _complete(order, given)
        variables = {use.env: _variable(use.name, values[use.name]) for use in order.secrets if use.env}
        credentials = _credentials(of_registry, values[of_registry]) if of_registry else None
        place = SecretPlace(
            path=self._base() / name, has_variables=bool(variables), has_registry=credentials is not None
        )
        with contextlib.suppress(FileNotFoundError):
            remove_tree(place.path)
        try:
            self._write(place, order, values, variables, credentials, account)
        except BaseException:
            self.remove(name)
            raise
        return place

    def remove(self, name: str) -> None:
        """Remove what a task had here, if it had anything."""
        for root in self._roots:
            try:
                remove_tree(root / self._name / name)
            except FileNotFoundError:
                continue
            except OSError as error:
                structlog.get_logger().error("cannot remove the secrets of a task", task=name, why=str(error))

    def sweep(self, live: Collection[str]) -> None:
        """Remove what others than these tasks have left."""
        for root in self._roots:
            with contextlib.suppress(FileNotFoundError, NotADirectoryError):
                for name in os.listdir(root / self._name):
                    if name not in live:
                        self.remove(name)

    def _base(self) -> Path:
        """Return the agent's directory on a tmpfs, made if need be. Raises CannotRun."""
        why: list[str] = []
        for root in self._roots:
            try:
                if not is_tmpfs(_nearest(root)):
                    why.append(f"{root} is on no tmpfs")
                    continue
                for path in (root, root / self._name):
                    _make_own(path)
                return root / self._name
            except OSError as error:
                why.append(f"{root}: {error.strerror or error}")
        raise CannotRun(
            Reason.SECRET_NOT_AVAILABLE,
            f"the node has no tmpfs for secrets: {'; '.join(why)}: mount one at /run",
            blames_node=True,
        )

    def _write(
        self,
        place: SecretPlace,
        order: TaskOrder,
        values: Mapping[str, bytes],
        variables: Mapping[str, str],
        credentials: Mapping[str, str] | None,
        account: Account | None,
    ) -> None:
        place.path.mkdir(mode=0o700)
        place.path.chmod(_PASSABLE)
        place.own.mkdir(mode=0o700)
        for file, content in ((place.variables, variables), (place.registry, credentials)):
            if content:
                _write(Path(file), json.dumps(content).encode(), 0o400)
        place.files.mkdir(mode=0o700)
        directories = [place.files]
        for use in order.secrets:
            if not use.file:
                continue
            target = place.files / use.file
            for directory in reversed(target.relative_to(place.files).parents[:-1]):
                made = place.files / directory
                if made not in directories:
                    made.mkdir(mode=0o700)
                    directories.append(made)
            _write(target, values[use.name], 0o400)
            _give(target, account)
        for directory in reversed(directories):
            _give(directory, account)
            directory.chmod(0o500)


def removal_of(place: SecretPlace) -> tuple[str, ...]:
    """Return the command by which a supervisor removes the secrets of its task: no agent may be there then."""
    return ("sh", "-c", 'chmod -R u+rwx -- "$1" 2>&-; rm -rf -- "$1"', "sh", str(place.path))


def default_roots() -> list[Path]:
    """Return where secrets may be, the best place first."""
    of_user = Path(f"/dev/shm/gosched-secrets-{os.geteuid()}")  # noqa: S108 - `_make_own` refuses what is another's
    return [Path("/run/gosched/secrets"), of_user] if os.geteuid() == 0 else [of_user]


def is_tmpfs(path: Path) -> bool:
    """Return whether what is written there stays in memory. Raises OSError."""
    # `struct statfs` begins with the type, a long, on all 64-bit Linux; it has 120 bytes.
    found = ctypes.create_string_buffer(512)
    if libc.statfs(os.fsencode(path), found) != 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number), str(path))
    return ctypes.c_long.from_buffer(found).value == _TMPFS


def _complete(order: TaskOrder, given: TaskSecrets | None) -> Mapping[str, bytes]:
    """Return the values of all that an order asks for. Raises CannotRun."""
    if given is not None and given.problem:
        raise CannotRun(Reason.SECRET_NOT_AVAILABLE, given.problem)
    values = given.values if given is not None else {}
    missing = [name for name in secret_names(order.secrets, order.isolation.registry) if name not in values]
    if missing:
        raise CannotRun(Reason.SECRET_NOT_AVAILABLE, f"the masters sent no value of secret {missing[0]}")
    return values


def _variable(name: str, value: bytes) -> str:
    if b"\0" in value:
        raise CannotRun(
            Reason.SECRET_NOT_AVAILABLE, f"secret {name} holds a NUL byte, which no variable can: use a file instead"
        )
    return os.fsdecode(value)


def _credentials(name: str, value: bytes) -> dict[str, str]:
    """Return the user and the password of a registry: of JSON, or of USER:PASSWORD."""
    text = value.decode(errors="replace").strip()
    try:
        read = json.loads(text) if text.startswith("{") else {}
    except ValueError:
        read = {}
    user, password = read.get("username"), read.get("password")
    if not text.startswith("{"):
        user, _, password = text.partition(":")
    if not isinstance(user, str) or not isinstance(password, str) or not user or not password:
        detail = f'secret {name} is no credentials of a registry: it holds {{"username": ..., "password": ...}},'
        raise CannotRun(Reason.SECRET_NOT_AVAILABLE, f"{detail} or USER:PASSWORD")
    return {"username": user, "password": password}


def _nearest(path: Path) -> Path:
    return next(each for each in (path, *path.parents) if each.exists())


def _make_own(path: Path) -> None:
    """Make a directory that only this user can write in. Raises OSError for one that is another's."""
    with contextlib.suppress(FileExistsError):
        path.parent.mkdir(mode=0o755, exist_ok=True)
        path.mkdir(mode=0o700)
        path.chmod(_PASSABLE)
    seen = os.lstat(path)
    if seen.st_uid != os.geteuid() or seen.st_mode & 0o170022 != 0o040000:
        raise PermissionError(f"{path} is another user's, or others can write in it")


def _write(path: Path, data: bytes, mode: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, mode)
    with os.fdopen(fd, "wb") as file:
        file.write(data)


def _give(path: Path, account: Account | None) -> None:
    if account is not None:
        os.chown(path, account.uid, account.gid, follow_symlinks=False)
