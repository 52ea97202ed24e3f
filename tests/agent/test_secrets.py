"""Secrets on a node: real agents and tasks, values that are in memory alone, from a task's start to its end."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from gosched.agent.runtimes.interface import CannotRun
from gosched.agent.tasks.secrets import SecretStore, TaskSecrets, default_roots, is_tmpfs
from gosched.core.orders import TaskOrder
from gosched.core.reasons import Reason
from gosched.core.spec.isolation import Isolation
from gosched.core.spec.secret_use import SecretUse
from gosched.wire.v1 import types_pb2, worker_pb2
from tests.agent.conftest import Agent, FakeMaster, shell, wait_for

MakeAgent = Callable[..., Agent]
VALUE = b"only-in-memory-51c2"
ID = "j1/main/0.1"


def using(line: str, *uses: Any, allocation_id: str = ID) -> Any:
    found = shell(allocation_id, line)
    found.secrets.extend(uses)
    return found


FILE = types_pb2.SecretUse(name="db", file="deep/password")
VARIABLE = types_pb2.SecretUse(name="db", env="PASSWORD")


def values(value: bytes = VALUE, problem: str = "", allocation_id: str = ID) -> Any:
    given = [] if problem else [worker_pb2.SecretValue(name="db", value=value)]
    return worker_pb2.TaskSecrets(allocation_id=allocation_id, values=given, problem=problem)


def push(agent: Agent, order: Any, *secrets: Any) -> None:
    agent.call(
        "StartTasks",
        worker_pb2.StartTasksRequest(
            epoch=1,
            node_id=agent.identity.node_id,
            incarnation=agent.identity.incarnation,
            orders=[order],
            secrets=secrets,
        ),
    )


def directory_of(agent: Agent, name: str) -> Path:
    """Where the task wrote the path of its secrets."""
    file = agent.data_dir.parent / name
    return Path(wait_for(lambda: file.exists() and file.read_text().strip(), why=f"{name} is written"))


def files_with(value: bytes, folder: Path) -> list[str]:
    return [str(path) for path in folder.rglob("*") if path.is_file() and value in path.read_bytes()]


def test_a_task_gets_files_and_variables_and_nothing_of_them_is_on_the_disk(
    master: FakeMaster, make_agent: MakeAgent
) -> None:
    agent = make_agent(master).start(master)
    home = agent.data_dir.parent
    line = f"cat $GOSCHED_SECRETS_DIR/deep/password; echo; echo $PASSWORD; echo $GOSCHED_SECRETS_DIR > {home}/at"
    wait = f"; until [ -e {home}/end ]; do sleep 0.02; done"
    push(agent, using(line + wait, FILE, VARIABLE), values())
    at = directory_of(agent, "at")
    assert (at / "deep/password").read_bytes() == VALUE
    assert [oct(path.stat().st_mode & 0o777) for path in (at, at / "deep", at / "deep/password")] == [
        "0o500",
        "0o500",
        "0o400",
    ]
    assert (at.parent / "own").stat().st_mode & 0o777 == 0o700  # what is for the supervisor is not for tasks
    assert is_tmpfs(at)
    # The log of a task has what it prints; nothing else below the agent's directory has the value.
    assert [name for name in files_with(VALUE, agent.data_dir) if "/logs/" not in name] == []
    assert not any(VALUE.decode() in line for line in agent.lines)
    (home / "end").touch()
    assert master.await_end(ID) == ("SUCCEEDED", 0, "")
    assert agent.stdout(ID).split() == [VALUE, VALUE]
    wait_for(lambda: not at.parent.exists(), why="its secrets are removed")


def test_values_come_with_a_heartbeat_as_well(master: FakeMaster, make_agent: MakeAgent) -> None:
    master.secrets = [values()]
    master.start = [using("echo $PASSWORD", VARIABLE)]
    agent = make_agent(master).start(master)
    assert master.await_end(ID) == ("SUCCEEDED", 0, "")
    assert agent.stdout(ID).strip() == VALUE


@pytest.mark.parametrize(
    ("secrets", "words"),
    [
        ([values(problem="there is no secret ml/db any more")], "there is no secret ml/db any more"),
        ([], "the masters sent no value of secret db"),
        ([worker_pb2.TaskSecrets(allocation_id=ID)], "the masters sent no value of secret db"),
        ([values(allocation_id="j2/main/0.1")], "the masters sent no value of secret db"),
        ([values(b"a\0b")], "holds a NUL byte"),
    ],
)
def test_a_task_whose_secrets_cannot_be_had_fails_with_the_reason_and_does_not_run(
    master: FakeMaster, make_agent: MakeAgent, secrets: list[Any], words: str
) -> None:
    agent = make_agent(master).start(master)
    ran = agent.data_dir.parent / "ran"
    push(agent, using(f"touch {ran}", VARIABLE), *secrets)
    assert master.await_end(ID) == ("FAILED", 125, Reason.SECRET_NOT_AVAILABLE)
    assert words in master.seen(ID).detail  # type: ignore[union-attr]
    assert not ran.exists()
    assert _left(agent) == []


def test_a_task_that_ends_while_no_agent_is_there_leaves_no_secrets(master: FakeMaster, make_agent: MakeAgent) -> None:
    agent = make_agent(master).start(master)
    home = agent.data_dir.parent
    line = f"echo $GOSCHED_SECRETS_DIR > {home}/at; until [ -e {home}/end ]; do sleep 0.02; done"
    push(agent, using(line, FILE, VARIABLE), values())
    at = directory_of(agent, "at")
    agent.end(signal.SIGKILL)
    assert (at / "deep/password").read_bytes() == VALUE  # the task goes on with them
    (home / "end").touch()
    wait_for(lambda: not at.parent.exists(), why="its supervisor removes them")


def test_a_restarted_agent_keeps_the_secrets_of_tasks_that_run_and_sweeps_what_is_left_of_others(
    master: FakeMaster, make_agent: MakeAgent
) -> None:
    agent = make_agent(master).start(master)
    home = agent.data_dir.parent
    line = f"echo $GOSCHED_SECRETS_DIR > {home}/at; until [ -e {home}/end ]; do sleep 0.02; done; echo $PASSWORD"
    push(agent, using(line, FILE, VARIABLE), values())
    at = directory_of(agent, "at")
    agent.end(signal.SIGKILL)
    stray = at.parents[1] / "j9%2Fmain%2F0.1"
    shutil.copytree(at.parent, stray)
    agent.start(master)
    assert not stray.exists()
    assert (at / "deep/password").read_bytes() == VALUE
    (home / "end").touch()
    assert master.await_end(ID) == ("SUCCEEDED", 0, "")
    wait_for(lambda: _left(agent) == [], why="nothing is left")


def test_an_order_that_was_stored_and_never_started_is_lost_and_not_run_without_its_secrets(
    master: FakeMaster, make_agent: MakeAgent
) -> None:
    agent = make_agent(master).start(master)
    agent.end(signal.SIGKILL)
    spool = agent.spool(ID)
    spool.mkdir(mode=0o700)
    ran = agent.data_dir.parent / "ran"
    (spool / "order").write_bytes(using(f"touch {ran}", VARIABLE).SerializeToString())
    agent.start(master)
    assert master.await_end(ID)[::2] == ("LOST", "NEVER_STARTED")  # the masters place it again, and send values again
    assert not ran.exists()


def test_a_task_that_is_killed_with_its_supervisor_leaves_no_secrets(master: FakeMaster, make_agent: MakeAgent) -> None:
    agent = make_agent(master).start(master)
    home = agent.data_dir.parent
    push(agent, using(f"echo $GOSCHED_SECRETS_DIR > {home}/at; sleep 600", FILE), values())
    at = directory_of(agent, "at")
    supervisor = json.loads((agent.spool(ID) / "supervisor.json").read_text())["pid"]
    os.kill(supervisor, signal.SIGKILL)
    assert master.await_end(ID)[0] == "LOST"
    wait_for(lambda: not at.parent.exists(), why="the agent removes them")


def _left(agent: Agent) -> list[str]:
    """Return the names of tasks that have secrets on this machine, of this agent's data directory."""
    store = SecretStore(agent.data_dir)
    return [
        name for root in default_roots() if (root / store._name).exists() for name in os.listdir(root / store._name)
    ]


@pytest.fixture(autouse=True)
def _swept(tmp_path: Path) -> Iterator[None]:
    yield
    store = SecretStore(tmp_path / "node")
    for root in default_roots():
        shutil.rmtree(root / store._name, ignore_errors=True)


# The store by itself


def order(*uses: SecretUse, registry: str = "") -> TaskOrder:
    return TaskOrder(allocation_id=ID, task_id="t", job_id="j", secrets=uses, isolation=Isolation(registry=registry))


def test_only_a_tmpfs_takes_secrets(tmp_path: Path) -> None:
    assert is_tmpfs(Path("/dev/shm"))
    assert not is_tmpfs(Path("/proc"))
    on_disk = next((path for path in (tmp_path, Path.home(), Path("/")) if not is_tmpfs(path)), None)
    assert on_disk is not None, "this machine has no file system on a disk"
    store = SecretStore(tmp_path, [on_disk / "gosched-test-secrets"])
    with pytest.raises(CannotRun) as refused:
        store.put(order(SecretUse(name="db", file="db")), TaskSecrets(values={"db": VALUE}), "a", None)
    assert "is on no tmpfs" in refused.value.detail
    assert refused.value.blames_node
    assert not (on_disk / "gosched-test-secrets").exists()


@pytest.mark.parametrize("theirs", ["link", "open"])
def test_a_directory_that_others_prepared_is_not_used(tmp_path: Path, theirs: str) -> None:
    root = Path("/dev/shm") / f"gosched-test-{os.getpid()}-{theirs}"
    trap = Path("/dev/shm") / f"gosched-test-{os.getpid()}-trap"
    trap.mkdir()
    try:
        if theirs == "link":
            root.symlink_to(trap)
        else:
            root.mkdir()
            root.chmod(0o777)
        with pytest.raises(CannotRun, match="others can write"):
            SecretStore(tmp_path, [root]).put(
                order(SecretUse(name="db", file="db")), TaskSecrets(values={"db": VALUE}), "a", None
            )
        assert list(trap.iterdir()) == []
    finally:
        trap.rmdir()
        root.unlink() if root.is_symlink() else shutil.rmtree(root)


@pytest.mark.parametrize(
    ("value", "user"),
    [
        (b'{"username": "ann", "password": "p:q"}', {"username": "ann", "password": "p:q"}),
        (b"ann:p:q\n", {"username": "ann", "password": "p:q"}),
        (b"ann", None),
        (b"{not json", None),
        (b'{"username": 1, "password": "x"}', None),
        (b"[]", None),
        (b"ann:", None),
        (b":x", None),
    ],
)
def test_credentials_of_a_registry_are_json_or_user_and_password(tmp_path: Path, value: bytes, user: Any) -> None:
    root = Path("/dev/shm") / f"gosched-test-{os.getpid()}-hub"
    store = SecretStore(tmp_path, [root])
    given = TaskSecrets(values={"hub": value})
    try:
        if user is None:
            with pytest.raises(CannotRun) as refused:
                store.put(order(registry="secret:hub"), given, "a", None)
            assert refused.value.reason == Reason.SECRET_NOT_AVAILABLE
            assert "is no credentials of a registry" in refused.value.detail
            assert "ann" not in refused.value.detail
        else:
            place = store.put(order(registry="secret:hub"), given, "a", None)
            assert place is not None
            assert json.loads(Path(place.registry).read_text()) == user
    finally:
        shutil.rmtree(root, ignore_errors=True)


def test_no_repr_has_a_value() -> None:
    assert "only" not in repr(TaskSecrets(values={"db": VALUE}))
