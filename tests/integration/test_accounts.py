"""Two tenants on one node, whose agent is root: what each sees of the other, and what is left for the next. Real agent,
real tasks; the masters are a fake, since it gives two holders one number."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gosched.agent.tasks.accounts import SHM
from gosched.agent.tasks.secrets import default_roots
from gosched.wire.v1 import types_pb2, worker_pb2
from tests.agent.conftest import LIMIT_S, Agent, FakeMaster, processes_of, shell, wait_for

#: Of this test alone: agents of other tests may be on the machine.
FIRST = 2_090_000_000
SECRET = "only-ann-knows-8d21"


@pytest.fixture
def master() -> Iterator[FakeMaster]:
    fake = FakeMaster()
    fake.serve()
    yield fake
    fake.vanish()


@pytest.fixture
def agent(master: FakeMaster) -> Iterator[Agent]:
    assert os.geteuid() == 0, "this test needs root: only root can run tasks as other users"
    # Not below /tmp: what holds the agent's directory is not hidden from tasks.
    with tempfile.TemporaryDirectory(prefix="gosched-accounts-", dir="/var/lib") as name:
        home = Path(name)
        home.chmod(0o755)
        config = home / "users.yaml"
        config.write_text(yaml.safe_dump({"users": {"range": f"{FIRST}:10"}, "keep_finished": "200ms"}))
        found = Agent(home / "node", master.address, "--resources=cpu=4,memory=4Gi", f"--config={config}")
        yield found.start(master)
        found.end()
        print(*found.lines, sep="\n")
        for pid in processes_of(home):
            os.kill(pid, signal.SIGKILL)
        wait_for(lambda: not processes_of(home), why=f"left over: {processes_of(home)}")


def of(tenant: str, number: int, name: str, line: str, user: str = "") -> Any:
    order = shell(f"{name}/main/0.1", line)
    order.tenant, order.user, order.account_number = tenant, user, number
    return order


def with_secret(agent: Agent, order: Any) -> None:
    order.secrets.extend([types_pb2.SecretUse(name="key", file="key"), types_pb2.SecretUse(name="key", env="KEY")])
    value = worker_pb2.SecretValue(name="key", value=SECRET.encode())
    agent.call(
        "StartTasks",
        worker_pb2.StartTasksRequest(
            epoch=1,
            node_id=agent.identity.node_id,
            incarnation=agent.identity.incarnation,
            orders=[order],
            secrets=[worker_pb2.TaskSecrets(allocation_id=order.allocation_id, values=[value])],
        ),
    )


#: What a task leaves in every place that is not its own directory, and keeps to itself until it is told to end.
LEAVES = """
python3 - <<'EOF'
import ctypes, os, subprocess
libc = ctypes.CDLL(None)
print("shm", libc.shmget(0x601, 4096, 0o1600))
print("sem", libc.semget(0x601, 1, 0o1600))
print("msg", libc.msgget(0x601, 0o1600))
for place in ("/tmp", "/var/tmp", "/dev/shm"):
    open(place + "/ann-was-here", "w").write("hers")
EOF
echo pid $$ work $PWD secrets $GOSCHED_SECRETS_DIR
id -un; getent passwd $(id -u) | cut -d: -f1,3; echo key $KEY; echo home $HOME; echo x > ~/.cached
until [ -e end ]; do sleep 0.05; done
"""


def started(agent: Agent, allocation: str, last: str) -> dict[str, str]:
    """What the task printed, by its first words, once it has said the last one of them."""

    def said() -> dict[str, str]:
        text = b"".join(chunk.data for chunk in agent.logs(allocation, follow=False)).decode()
        found = {line.split()[0]: line.partition(" ")[2] for line in text.splitlines() if line.strip()}
        return found if last in found else {}

    return wait_for(said, why=f"{allocation} says {last}")


def test_two_tenants_see_nothing_of_each_other_and_the_next_holder_of_an_id_finds_nothing(
    master: FakeMaster, agent: Agent
) -> None:
    assert "secrets" not in agent.identity.isolation
    assert "names of others" not in agent.identity.isolation
    assert agent.identity.labels["gosched.io/secrets"] == "true"
    ann = of("nlp", 1, "ann", LEAVES)
    with_secret(agent, ann)
    told = started(agent, ann.allocation_id, "home")
    pid, work, secrets = told["pid"].split()[0], told["pid"].split()[2], told["pid"].split()[4]
    assert told[f"gosched-{FIRST}"] == ""
    assert told[f"gosched-{FIRST}:{FIRST}"] == ""  # getpwuid knows it
    assert (told["home"], told["key"]) == (work, SECRET)
    assert SECRET.encode() in Path(f"/proc/{pid}/environ").read_bytes()
    assert os.stat(f"/proc/{pid}").st_uid == FIRST

    in_memory = next(path for root in default_roots() for path in root.glob("*/*/files/key"))
    shmat = "import ctypes, sys; at = ctypes.CDLL(None).shmat; at.restype = ctypes.c_ssize_t"
    attach = f"{shmat}; sys.exit(at({told['shm']}, None, 0) == -1)"
    own = [
        f"cat /proc/{pid}/environ",
        f"cat /proc/{pid}/cmdline",
        f"ls -d /proc/{pid}",
        "ps -eo args= | grep '[u]ntil .'",
        f"kill -0 {pid}",
        f"ls {work}",
        "ls /tmp /var/tmp /dev/shm | grep ann",
        f'python3 -c "{attach}"',
    ]
    others = [
        f"head -c 1 /proc/{pid}/mem",
        f"kill -KILL {pid}",
        f"cat {secrets}/key",
        f"cat {in_memory}",
        f"ls {secrets}",
        f"ls {Path(work).parent}",
        f"cat {agent.spool(ann.allocation_id)}/logs/*",
        f"cat {agent.spool(ann.allocation_id)}/launch.json",
        f"ls -d /dev/shm/gosched-accounts {agent.data_dir}/accounts/{FIRST}/tmp",
        f"ipcrm -m {told['shm']}",
        f"ipcrm -s {told['sem']}",
        f"ipcrm -q {told['msg']}",
    ]
    assert seen_by(agent, master, of("nlp", 1, "ann2", ""), own) == list(range(len(own))), "her own are hers to see"
    assert seen_by(agent, master, of("vision", 2, "bob", ""), [*own, *others]) == []

    # An agent that was started anew knows whose the id is, and gives it to nobody else meanwhile.
    agent.end(signal.SIGKILL)
    agent.start(master)
    agent.run(of("later", 1, "eve", "true"))
    assert master.await_end("eve/main/0.1") == ("FAILED", 125, "USER_REFUSED")
    assert "was that of tenant nlp, and is to be tenant later's" in master.seen("eve/main/0.1").detail  # type: ignore[union-attr]

    stray = subprocess.Popen(["sleep", "1000"], user=FIRST, group=FIRST, extra_groups=[])
    try:
        (Path(work) / "end").touch()
        assert master.await_end(ann.allocation_id) == ("SUCCEEDED", 0, "")
        assert stray.wait(LIMIT_S) == -signal.SIGKILL
        wait_for(lambda: not leftovers_of(FIRST, agent.data_dir), why=f"left: {leftovers_of(FIRST, agent.data_dir)}")
        agent.run(of("later", 1, "later", "ls -A /tmp /var/tmp /dev/shm ~; id -u"))
        assert master.await_end("later/main/0.1") == ("SUCCEEDED", 0, "")
        said = agent.stdout("later/main/0.1").decode().split()
        assert [word for word in said if not word.endswith(":")] == [str(FIRST)]
    finally:
        stray.kill()
        stray.wait()


def seen_by(agent: Agent, master: FakeMaster, order: Any, looks: list[str]) -> list[int]:
    """The numbers of those looks at which a task sees something."""
    tries = [f"if out=$({look} 2>&1); then echo '{number}'; fi" for number, look in enumerate(looks)]
    order.command[-1] = "\n".join(tries)
    agent.run(order)
    assert master.await_end(order.allocation_id) == ("SUCCEEDED", 0, "")
    return [int(number) for number in agent.stdout(order.allocation_id).split()]


def leftovers_of(uid: int, data_dir: Path) -> list[str]:
    ipc = [
        line
        for kind in ("shm", "sem", "msg")
        for line in Path(f"/proc/sysvipc/{kind}").read_text().splitlines()
        if str(uid) in line.split()
    ]
    places = [data_dir / f"accounts/{uid}/tmp", data_dir / f"accounts/{uid}/var-tmp", SHM / str(uid)]
    return [*ipc, *[str(place) for place in places if place.exists()]]
