"""The accounts of this node under which tasks of tenants run, one for each tenant, or for each user of a tenant whose
name is authenticated: ids of a range that belongs to this agent, as subordinate ids do (subuid(5)).

The masters number the holders, and never give a number again; an id is the beginning of the range plus that. So an id
is one holder's on every node, for ever. What the data directory knows holds even so: where masters give a number to
another holder, as those restored from an old backup may, that one starts once nothing of the former one is left.

Invariant: two holders never have the same id at once. None finds anything of another one's in the places for temporary
files, in shared memory, or among processes.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pwd
import subprocess
import sys
import threading
import time
from collections.abc import Collection, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import structlog

import gosched
from gosched.agent.files import replace
from gosched.agent.runtimes.interface import CannotRun, SecretPlace
from gosched.agent.supervisor.launch import Account
from gosched.agent.supervisor.own_view import PROC, hides_processes
from gosched.agent.tasks import leftovers
from gosched.agent.tasks.removal import remove_tree
from gosched.config.agent_settings import Users
from gosched.core.orders import TaskOrder
from gosched.core.reasons import Reason

PROBE_S = 10.0
MAX_AGENTS = 16  # of one machine, that find ids by themselves
_SOURCES = str(Path(gosched.__file__).parent.parent)
_PROBE = "import sys; sys.path.insert(0, sys.argv.pop(1)); from gosched.agent.supervisor.own_view import main; main()"
#: The claims of all agents of this machine, which must not share ids. On a tmpfs: processes end with it.
CLAIMS = Path("/run/gosched/accounts")
SHM = Path("/dev/shm/gosched-accounts")  # noqa: S108 - root's alone, or it is not used
_TEMPORARY = ("/tmp", "/var/tmp")  # noqa: S108 - where tasks find them
_USER_LISTS = ("passwd", "group")


@dataclass(frozen=True, slots=True, kw_only=True)
class Holder:
    tenant: str
    #: Empty: all of the tenant's whose names are not authenticated.
    user: str = ""

    def __str__(self) -> str:
        return f"user {self.user} of tenant {self.tenant}" if self.user else f"tenant {self.tenant}"


class Accounts:
    """The accounts of an agent. `directory`: where it knows whose each id is."""

    def __init__(self, directory: Path, rules: Users, *, claims: Path = CLAIMS, shm: Path = SHM) -> None:
        self._directory = directory
        self._rules = rules
        self._shm = shm
        self._turn = threading.Lock()
        self._first = rules.first
        self._holders: dict[int, Holder] = {}
        #: Ids that may have left something, and when each was asked for last, by the monotonic clock.
        self._used: dict[int, float] = {}
        #: Ids whose places are made.
        self._ready: set[int] = set()
        #: Why tasks see names of others' files and processes, in one line; empty: they do not.
        self.view_problem = ""
        #: Why tenants have no accounts of their own here, in one line; empty: they have.
        self.problem = _problem(rules) or self._claim(claims) or _range_problem(self._first, rules.count)
        if not self.problem:
            self._load()
            self.view_problem = self._probe()

    @property
    def shared(self) -> str:
        """Return why tasks of several tenants share an account here, and so get no secrets, in one line; empty: they do
        not, or the settings say that this is meant."""
        return "" if self._rules.shared else self.problem

    def account(self, order: TaskOrder) -> Account | None:
        """Return the account of the order's holder, ready for use, but without a home; None: it has none. Raises
        CannotRun, OSError."""
        if self.problem or not 0 < order.account_number <= self._rules.count:
            return None
        uid = self._first + order.account_number - 1
        with self._turn:
            self._used[uid] = time.monotonic()
            self._give(uid, Holder(tenant=order.tenant, user=order.user))
            if uid not in self._ready:
                self._make_places(uid)
        return Account(uid=uid, gid=uid, groups=(uid,), name=_name(uid), home="")

    def why_none(self, order: TaskOrder) -> str:
        """Return why an order's holder has no account of its own here, in one line."""
        if self.problem:
            return self.problem
        if not order.account_number:
            return "the masters gave its tenant no account: the upgrade is not finalized, or they have given all"
        return f"users.range has {self._rules.count} ids, and its tenant's number is {order.account_number}"

    def view(self, account: Account, place: Path, secrets: SecretPlace | None) -> tuple[tuple[str, str], ...]:
        """Return what a task of the account sees in place of the node's, as `enter_view` takes it; nothing, unless it
        is one of these accounts. `place`: the directory of its allocation; what holds that stays as it is."""
        if self.view_problem or account.uid not in self._ready:
            return ()
        own = self._directory / str(account.uid)
        places = [(own / name, f"/etc/{name}") for name in _USER_LISTS]
        places += [(own / path.strip("/").replace("/", "-"), path) for path in _TEMPORARY]
        places += [(self._shm / str(account.uid), "/dev/shm")]  # noqa: S108 - it is the account's own
        seen = [(str(its), at) for its, at in places if its.exists() and not place.is_relative_to(at)]
        # They may be on the node's /dev/shm, and so are bound before that is hidden.
        bound: list[tuple[str, str]] = []
        if secrets is not None:
            secrets_dir(place).mkdir(mode=0o700, exist_ok=True)
            bound = [(str(secrets.files), str(secrets_dir(place)))]
        return (*bound, *seen, *([("", PROC)] if hides_processes() else []))

    def tidy(self, live: Collection[int], now: float) -> None:
        """Take away what accounts have left that no task here runs under. In a worker thread. `live`: ids of all tasks
        that had not ended `now`, by the monotonic clock."""
        for uid, used_at in [*self._used.items()]:
            if uid in live or used_at >= now:
                continue
            with self._turn:
                if self._used[uid] != used_at:
                    continue
                try:
                    self._clear(uid)
                    del self._used[uid]
                except OSError as error:
                    structlog.get_logger().warning("cannot clean up after an account", id=uid, why=str(error))

    def _give(self, uid: int, holder: Holder) -> None:
        """Make the id the holder's. Raises CannotRun where anybody else has it."""
        former = self._holders.get(uid)
        if former == holder:
            return
        with contextlib.suppress(KeyError):
            taken = pwd.getpwuid(uid).pw_name
            raise _refused(f"id {uid} is that of this machine's user {taken}: give the agent another users.range")
        if processes := leftovers.processes_of(uid):
            whose = str(former) if former is not None else "nobody that this agent knows"
            raise _refused(f"process {processes[0]} has id {uid}, which was that of {whose}, and is to be {holder}'s")
        self._clear(uid)
        home = self._directory / str(uid)
        home.mkdir(mode=0o700, exist_ok=True)
        replace(home / "holder", json.dumps(asdict(holder)).encode())
        self._holders[uid] = holder

    def _clear(self, uid: int) -> None:
        """Leave nothing of an id, but for whose it was. Raises OSError."""
        leftovers.kill(uid)
        leftovers.remove_ipc(uid)
        leftovers.remove_files(uid, (*_TEMPORARY, str(self._shm.parent)))
        self._ready.discard(uid)
        own = self._directory / str(uid)
        for path in (*[own / each.strip("/").replace("/", "-") for each in _TEMPORARY], self._shm / str(uid)):
            with contextlib.suppress(FileNotFoundError):
                remove_tree(path)

    def _make_places(self, uid: int) -> None:
        """Make what the tasks of an id alone see: only root gets there by another way. Raises OSError."""
        own, name = self._directory / str(uid), _name(uid)
        lines = (f"{name}:x:{uid}:{uid}::/nonexistent:/bin/sh\n", f"{name}:x:{uid}:\n")
        for file, line in zip(_USER_LISTS, lines, strict=True):
            with contextlib.suppress(FileNotFoundError):
                replace(own / file, _with_end(Path(f"/etc/{file}").read_bytes()) + line.encode())
                (own / file).chmod(0o644)
        with contextlib.suppress(FileNotFoundError):
            _make_roots(self._shm)
            _make_open(self._shm / str(uid))
        for path in _TEMPORARY:
            _make_open(own / path.strip("/").replace("/", "-"))
        self._ready.add(uid)

    def _load(self) -> None:
        for path in self._directory.iterdir():
            if path.name.isdigit() and (path / "holder").exists():
                uid = int(path.name)
                self._holders[uid] = Holder(**json.loads((path / "holder").read_bytes()))
                self._used[uid] = 0.0

    def _claim(self, claims: Path) -> str:
        """Claim ids on this machine. Return why they cannot be had: another agent may run tasks under them."""
        kept, count = self._directory / "first", self._rules.count
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            _make_roots(claims.parent)
            _make_roots(claims)
            with _locked(claims):
                others = self._others(claims)
                wanted = [self._rules.first]
                if "range" not in self._rules.model_fields_set:  # several agents of a machine take one after the other
                    wanted = [self._rules.first + place * count for place in range(MAX_AGENTS)]
                    had = int(kept.read_text()) if kept.exists() else 0
                    wanted.sort(key=lambda first: first != had)
                for first in wanted:
                    if not any(_overlap((first, count), ids) for ids in others.values()):
                        break
                else:
                    whose = next(each for each, ids in others.items() if _overlap((wanted[0], count), ids))
                    return f"the agent on {whose} has ids of the same range: give this one its own users.range"
                claim = {"directory": str(self._directory), "first": first, "count": count}
                replace(claims / f"{first}.json", json.dumps(claim).encode())
                replace(kept, str(first).encode())
                self._first = first
        except OSError as error:
            return f"the ids of its tasks cannot be claimed on this machine: {error}"
        return ""

    def _others(self, claims: Path) -> dict[Path, tuple[int, int]]:
        """Return the ids of other agents, by their data directories. Claims of those that are no more are removed."""
        found: dict[Path, tuple[int, int]] = {}
        for file in claims.glob("*.json"):
            claim = json.loads(file.read_bytes())
            directory = Path(claim["directory"])
            if directory == self._directory or not directory.parent.exists():
                file.unlink()
            else:
                found[directory.parent] = (claim["first"], claim["count"])
        return found

    def _probe(self) -> str:
        """Return why tasks cannot have a view of their own."""
        command = [sys.executable, "-I", "-S", "-c", _PROBE, _SOURCES, str(self._directory)]
        try:
            found = subprocess.run(command, capture_output=True, text=True, timeout=PROBE_S, check=False)
        except subprocess.TimeoutExpired:
            return "a mount namespace was not made in time"
        return (found.stdout or found.stderr).strip().rpartition("\n")[2]


def secrets_dir(place: Path) -> Path:
    """Return where a task with a view finds its secrets, in the directory of its allocation: empty for all others."""
    return place / "secrets"


def _problem(rules: Users) -> str:
    if not _is_root():
        return "the agent is not root, so all tenants' tasks run under its account"
    if rules.own:
        return "users.own is set, so all tenants' tasks run under the agent's account"
    if rules.default:
        return f"users.default is set, so all tenants' tasks run as {rules.default}"
    return ""


def _range_problem(first: int, count: int) -> str:
    if not _mapped(first, count):
        last = first + count - 1
        return f"ids {first} to {last} are not all mapped in the agent's user namespace: set users.range"
    for file in ("/etc/subuid", "/etc/subgid"):
        for owner, begin, size in _subordinate(Path(file)):
            if _overlap((begin, size), (first, count)):
                return f"{file} gives {owner} ids of the same range: set another users.range"
    return ""


def _mapped(first: int, count: int) -> bool:
    for file in ("uid_map", "gid_map"):
        ranges = [list(map(int, line.split())) for line in Path(f"/proc/self/{file}").read_text().splitlines()]
        if not any(begin <= first and first + count <= begin + size for begin, _, size in ranges):
            return False
    return True


def _subordinate(file: Path) -> Iterator[tuple[str, int, int]]:
    try:
        lines = file.read_text(errors="replace").splitlines()
    except OSError:
        return
    for line in lines:
        parts = line.split(":")
        if len(parts) == 3 and parts[1].isdigit() and parts[2].isdigit():
            yield parts[0], int(parts[1]), int(parts[2])


def _overlap(one: tuple[int, int], other: tuple[int, int]) -> bool:
    return one[0] < other[0] + other[1] and other[0] < one[0] + one[1]


def _refused(detail: str) -> CannotRun:
    return CannotRun(Reason.USER_REFUSED, detail, blames_node=True)


def _name(uid: int) -> str:
    return f"gosched-{uid}"


def _with_end(lines: bytes) -> bytes:
    return lines if not lines or lines.endswith(b"\n") else lines + b"\n"


def _make_roots(path: Path) -> None:
    """Make a directory that is root's alone. Raises OSError for one that is another's."""
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o755 if path == CLAIMS.parent else 0o700)
    seen = os.lstat(path)
    if not _is_roots(seen) or seen.st_mode & 0o170022 != 0o040000:
        raise PermissionError(1, "another user's, or others can write in it", str(path))


def _is_root() -> bool:
    return os.geteuid() == 0


def _is_roots(seen: os.stat_result) -> bool:
    return seen.st_uid == 0


def _make_open(path: Path) -> None:
    with contextlib.suppress(FileExistsError):
        path.mkdir(mode=0o700)
    path.chmod(0o1777)


@contextlib.contextmanager
def _locked(directory: Path) -> Iterator[None]:
    fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)
