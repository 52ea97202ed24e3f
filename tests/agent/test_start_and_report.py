"""A task from its order to its reported end."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from gosched.core.reasons import Reason
from gosched.wire.v1 import types_pb2, worker_pb2
from tests.agent.conftest import Agent, FakeMaster, order, shell, wait_for

MakeAgent = Callable[..., Agent]


def test_a_task_ordered_by_push_runs_and_its_exit_is_reported(master: FakeMaster, make_agent: MakeAgent) -> None:
    agent = make_agent(master).start(master)
    agent.run(shell("j1/main/0.1", "echo hello; exit 3"))
    assert master.await_end("j1/main/0.1") == ("FAILED", 3, "NONZERO_EXIT")
    assert agent.stdout("j1/main/0.1") == b"hello\n"


def test_a_task_missed_by_push_starts_by_heartbeat_and_is_cleaned_after_forget(
    master: FakeMaster, make_agent: MakeAgent
) -> None:
    master.start = [shell("j1/main/0.1", "exit 0")]
    config = make_agent(master).data_dir.with_name("agent.yaml")
    config.write_text("keep_finished: 300ms\nheartbeat: 100ms\n")
    agent = make_agent(master, f"--config={config}").start(master)
    assert master.await_end("j1/main/0.1") == ("SUCCEEDED", 0, "")
    master.start, master.forget = [], ["j1/main/0.1"]
    wait_for(lambda: not agent.spool("j1/main/0.1").exists(), why="cleaned")
    wait_for(lambda: master.seen("j1/main/0.1") is None, why="no longer reported")
    wait_for(lambda: not list((agent.data_dir / "trash").iterdir()), why="the trash is emptied")


def test_a_result_is_kept_and_reported_until_it_is_forgotten(master: FakeMaster, make_agent: MakeAgent) -> None:
    agent = make_agent(master).start(master)
    agent.run(shell("j1/main/0.1", "exit 5"))
    master.await_end("j1/main/0.1")
    for _ in range(2):
        agent.end()
        agent.start(master)
        assert master.await_end("j1/main/0.1") == ("FAILED", 5, "NONZERO_EXIT")


@pytest.mark.parametrize(
    ("command", "working_dir", "code", "reason"),
    [
        (["no-such-command-here"], "", 127, "COMMAND_NOT_FOUND"),
        (["/no/such/file"], "", 127, "COMMAND_NOT_FOUND"),
        (["/etc/passwd"], "", 126, "NOT_EXECUTABLE"),
        (["/bin/true"], "/no/such/directory", 125, "BAD_WORKING_DIR"),
        (["/bin/echo", "a" * 200_000], "", 126, "TOO_LONG"),
        ([], "", 127, "COMMAND_NOT_FOUND"),
    ],
)
def test_a_command_that_cannot_run_fails_at_once_with_its_reason(
    master: FakeMaster, make_agent: MakeAgent, command: list[str], working_dir: str, code: int, reason: str
) -> None:
    agent = make_agent(master).start(master)
    agent.run(order("j1/main/0.1", *command, working_dir=working_dir))
    assert master.await_end("j1/main/0.1") == ("FAILED", code, reason)
    assert master.await_state("j1/main/0.1", "FAILED").detail


def test_an_order_that_cannot_be_stored_is_reported_also_if_the_disk_cannot_be_read(
    master: FakeMaster, make_agent: MakeAgent
) -> None:
    agent = make_agent(master).start(master)
    (agent.data_dir / "tasks").rename(agent.data_dir / "gone")
    (agent.data_dir / "tasks").write_text("no directory")
    agent.run(shell("j1/main/0.1", "exit 0"))
    assert master.await_end("j1/main/0.1") == ("FAILED", 125, "CANNOT_STORE")


@pytest.mark.parametrize("file", ["order", "launch.json"])
def test_an_order_for_which_the_disk_has_no_room_is_the_nodes_fault_and_the_node_says_so(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path, file: str
) -> None:
    """Nothing of it ran: it is LOST, and so costs its job nothing."""
    (tmp_path / "sitecustomize.py").write_text(
        "import builtins, errno, os\n"
        "real = builtins.open\n"
        "def full(name, *args, **named):\n"
        f"    if str(name).endswith('/{file}.tmp'):\n"
        "        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))\n"
        "    return real(name, *args, **named)\n"
        "builtins.open = full\n"
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(tmp_path))
        agent = make_agent(master).start(master)
    agent.run(shell("j1/main/0.1", "exit 0"))
    assert master.await_end("j1/main/0.1") == ("LOST", None, Reason.NODE_FAULT)
    seen = master.seen("j1/main/0.1")
    assert seen.blames_node
    assert "No space left on device" in seen.detail
    assert master.heartbeats[-1].unfit == seen.detail


def test_another_runtime_is_refused_with_its_reason(master: FakeMaster, make_agent: MakeAgent, tmp_path: Path) -> None:
    config = tmp_path / "no-docker.yaml"
    config.write_text(f"docker_host: unix://{tmp_path}/nobody.sock\n")  # there may be a daemon on this machine
    agent = make_agent(master, f"--config={config}").start(master)
    docker = order("j1/main/0.1", "/bin/true")
    docker.runtime = types_pb2.RUNTIME_DOCKER
    agent.run(docker)
    assert master.await_end("j1/main/0.1") == ("FAILED", 125, "RUNTIME_NOT_SUPPORTED")


def test_death_by_signal_gives_128_plus_its_number(master: FakeMaster, make_agent: MakeAgent) -> None:
    agent = make_agent(master).start(master)
    agent.run(shell("j1/main/0.1", "kill -SEGV $$"))
    assert master.await_end("j1/main/0.1") == ("FAILED", 139, "SIGNALLED")


def test_a_task_gets_its_orders_environment_and_little_of_the_agents(
    master: FakeMaster, make_agent: MakeAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_THE_AGENT", "x")
    agent = make_agent(master).start(master)
    agent.run(order("j1/main/0.1", "env", env={"WORD": "grün", "HOME": "/nowhere"}))
    master.await_end("j1/main/0.1")
    env = dict(line.split("=", 1) for line in agent.stdout("j1/main/0.1").decode().splitlines())
    assert env.pop("GOSCHED_ALLOCATION_ID") == "j1/main/0.1"
    assert env.pop("GOSCHED_CHECKPOINT_FILE").startswith(str(agent.spool("j1/main/0.1") / "work"))
    assert (env["CUDA_VISIBLE_DEVICES"], env["WORD"], env["HOME"]) == ("", "grün", "/nowhere")
    assert set(env) <= {"CUDA_VISIBLE_DEVICES", "WORD", "PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "PWD"}


def test_a_task_starts_clean_of_the_supervisors_descriptors_and_signals(
    master: FakeMaster, make_agent: MakeAgent
) -> None:
    agent = make_agent(master).start(master)
    agent.run(shell("j1/main/0.1", "ls /proc/self/fd; grep -E '^Sig(Blk|Ign)' /proc/self/status; pwd"))
    master.await_end("j1/main/0.1")
    out = agent.stdout("j1/main/0.1").decode().split()
    assert out[:4] == ["0", "1", "2", "3"]  # 3 is the directory that ls reads
    assert out[4:8:2] == ["SigBlk:", "SigIgn:"]
    # Signals 32 and 33 belong to the C library, which lets nobody set them; they may come ignored from outside.
    assert [int(mask, 16) & ~(0b11 << 31) for mask in out[5:8:2]] == [0, 0]
    assert out[8] == str(agent.spool("j1/main/0.1") / "work")


def test_an_allocation_ordered_many_times_runs_once(master: FakeMaster, make_agent: MakeAgent, tmp_path: Path) -> None:
    agent = make_agent(master).start(master)
    task = shell("j1/main/0.1", f"echo run >> {tmp_path}/runs; sleep 0.5")
    agent.run(task, task)
    agent.run(task)
    master.start = [task]
    master.await_end("j1/main/0.1")
    agent.run(task)
    agent.end()
    agent.start(master)
    agent.run(task, shell("j1/main/1.1", "exit 0"))
    master.await_end("j1/main/1.1")
    assert (tmp_path / "runs").read_text() == "run\n"


def test_a_gang_member_batch_starts_together(master: FakeMaster, make_agent: MakeAgent) -> None:
    agent = make_agent(master).start(master)
    ids = [f"j1/main/{i}.1" for i in range(20)]
    agent.run(*[shell(i, "exit 0") for i in ids])
    assert [master.await_end(i)[0] for i in ids] == ["SUCCEEDED"] * 20


def test_a_very_long_allocation_id_is_a_directory_too(master: FakeMaster, make_agent: MakeAgent) -> None:
    agent = make_agent(master).start(master)
    long = f"{'j' * 250}/{'ö' * 250}/0.1"
    agent.run(shell(long, "echo here"))
    assert master.await_end(long)[0] == "SUCCEEDED"
    assert agent.stdout(long) == b"here\n"


@pytest.mark.parametrize("bad", ["", "..", "no-slash.1"])
def test_an_order_without_a_proper_id_is_refused(master: FakeMaster, make_agent: MakeAgent, bad: str) -> None:
    agent = make_agent(master).start(master)
    with pytest.raises(grpc.RpcError) as refused:
        agent.run(order(bad, "/bin/true"))
    assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


def test_orders_for_another_node_or_boot_are_refused(master: FakeMaster, make_agent: MakeAgent) -> None:
    agent = make_agent(master).start(master)
    me = agent.identity
    for node, boot in ((me.node_id, "another"), ("another", me.incarnation)):
        request = worker_pb2.StartTasksRequest(
            epoch=1, node_id=node, incarnation=boot, orders=[shell("j1/main/0.1", "exit 0")]
        )
        with pytest.raises(grpc.RpcError) as refused:
            agent.call("StartTasks", request)
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    identity = agent.call("GetIdentity", worker_pb2.GetIdentityRequest())
    assert (identity.node_id, identity.incarnation) == (me.node_id, me.incarnation)
    assert os.listdir(agent.data_dir / "tasks") == []


def test_a_lower_epoch_is_refused_and_stays_refused_after_a_restart(master: FakeMaster, make_agent: MakeAgent) -> None:
    agent = make_agent(master).start(master)
    master.epoch = 7
    agent.run(shell("j1/main/0.1", "exit 0"), epoch=7)
    master.await_end("j1/main/0.1")
    for restart in (False, True):
        if restart:
            agent.end()
            agent.start(master)
        with pytest.raises(grpc.RpcError) as refused:
            agent.run(shell("j1/main/1.1", "exit 0"), epoch=6)
        assert refused.value.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert "epoch" in refused.value.details()
    assert not agent.spool("j1/main/1.1").exists()
