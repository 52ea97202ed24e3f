"""What keeps an agent from starting: one clear line, exit code 2, nothing changed."""

from __future__ import annotations

import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from gosched.health import ask
from tests.agent.conftest import Agent, FakeMaster, shell, wait_for
from tests.ports import HeldPort
from tests.replication.certificates import Authority

MakeAgent = Callable[..., Agent]


def refusal(agent: Agent) -> str:
    """The one line on stderr of an agent that ends with exit code 2."""
    agent.launch()
    assert agent.exit_code() == 2, agent.lines
    (line,) = agent.lines
    return line


def test_a_second_agent_on_a_data_directory_is_refused(master: FakeMaster, make_agent: MakeAgent) -> None:
    first = make_agent(master).start(master)
    line = refusal(make_agent(master))
    assert "another agent uses the data directory" in line
    assert "--data-dir" in line
    assert first.process is not None
    assert first.process.poll() is None


def test_a_port_in_use_is_refused(master: FakeMaster, make_agent: MakeAgent) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        line = refusal(make_agent(master, f"--grpc-addr=127.0.0.1:{taken.getsockname()[1]}"))
    assert "in use" in line
    assert "--grpc-addr" in line


def test_a_data_directory_that_cannot_be_written_is_refused(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("not a directory")
    line = refusal(make_agent(master, name="file/agent"))
    assert "cannot use the data directory" in line
    assert "--data-dir" in line


@pytest.mark.parametrize(
    ("flag", "said"),
    [
        ("--labels=novalue", "labels"),
        ("--labels=gosched.io/node=n1", "--labels: the agent itself gives the label gosched.io/node"),
        ("--grpc-addr=nonsense", "grpc"),
        ("--resources=cpu=-1", "resources"),
        ("--resources=memroy=1Gi", "resources"),
        ("--taints=gpu", "--taints: expected key=value:effect"),
    ],
)
def test_a_bad_flag_is_refused(master: FakeMaster, make_agent: MakeAgent, flag: str, said: str) -> None:
    assert said in refusal(make_agent(master, flag))


def test_hardware_that_does_not_fit_the_node_is_refused(
    master: FakeMaster, make_agent: MakeAgent, tmp_path: Path
) -> None:
    config = tmp_path / "agent.yaml"
    config.write_text("gpu_links: [0, 0]\n")
    line = refusal(make_agent(master, "--resources=gpu=4", f"--config={config}"))
    assert ":1: gpu_links: 2 entries for 4 GPUs: write one for each" in line


def test_a_damaged_order_is_named_and_nothing_is_removed(master: FakeMaster, make_agent: MakeAgent) -> None:
    agent = make_agent(master).start(master)
    agent.end()
    damaged = agent.spool("j1/main/0.1")
    damaged.mkdir()
    (damaged / "order").write_bytes(b"\xff\xff\xff")
    agent.lines.clear()
    line = refusal(agent)
    assert str(damaged) in line
    assert os.listdir(damaged) == ["order"]


def test_probes_find_an_agent_ready_once_masters_count_on_it(master: FakeMaster, make_agent: MakeAgent) -> None:
    port = HeldPort()
    master.vanish()
    make_agent(master, f"--health-addr={port.address}").launch()
    wait_for(lambda: ask(port.address, "") == "", why="it lives")
    assert ask(port.address, "ready") == "ready is NOT_SERVING"
    master.serve()
    wait_for(lambda: ask(port.address, "ready") == "", why="it has joined")


def test_a_data_directory_that_others_can_write_in_is_closed_and_one_of_another_user_refused(
    master: FakeMaster, make_agent: MakeAgent
) -> None:
    agent = make_agent(master).start(master)
    agent.end()
    for directory in (agent.data_dir, agent.data_dir / "tasks", agent.data_dir / "logs"):
        directory.chmod(0o777)
    agent.start(master)
    assert {name: mode_of(agent.data_dir / name) for name in (".", "tasks", "logs")} == {
        ".": 0o711,
        "tasks": 0o711,
        "logs": 0o700,
    }
    agent.end()
    if os.geteuid() == 0:
        os.chown(agent.data_dir, 65534, 65534)
        agent.lines.clear()
        assert f"chown root {agent.data_dir}" in refusal(agent)
        os.chown(agent.data_dir, 0, 0)


def test_a_key_that_others_can_read_is_refused(master: FakeMaster, make_agent: MakeAgent, tmp_path: Path) -> None:
    files = Authority(tmp_path / "ca").files(socket.gethostname(), "agent")
    Path(files.key).chmod(0o644)
    line = refusal(make_agent(master, f"--tls-cert={files.cert}", f"--tls-key={files.key}", f"--tls-ca={files.ca}"))
    assert line.endswith(f"chmod 600 {files.key}")


def test_an_agent_makes_no_socket_file_and_nothing_of_its_own_is_open_to_others(
    master: FakeMaster, make_agent: MakeAgent
) -> None:
    before = os.umask(0)  # as a careless shell's
    try:
        agent = make_agent(master).start(master)
    finally:
        os.umask(before)
    agent.run(shell("j/main/0.1", "sleep 3"))
    master.await_state("j/main/0.1", "RUNNING")
    seen = [path for path in agent.data_dir.rglob("*") if "work" not in path.parts]
    assert any(path.name == "launch.json" for path in seen)
    assert [path for path in seen if path.is_socket()] == []
    assert [path for path in seen if path.is_file() and mode_of(path) & 0o077] == []
    assert [path for path in seen if path.is_dir() and mode_of(path) & 0o066] == []


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_each_port_beyond_loopback_needs_tls_or_insecure_and_each_start_with_it_says_so_once(
    master: FakeMaster, make_agent: MakeAgent
) -> None:
    for flag in ("--grpc-addr=0.0.0.0:0", "--http-addr=0.0.0.0:0"):
        assert "is not loopback and there is no TLS" in refusal(make_agent(master, flag))
    agent = make_agent(master, "--grpc-addr=0.0.0.0:0", "--http-addr=0.0.0.0:0", "--insecure")
    for _ in range(2):
        agent.lines.clear()
        agent.start(master)
        (line,) = [line for line in agent.lines if "--insecure" in line]
        assert '"level": "warning"' in line
        assert "grpc_addr 0.0.0.0:0, http_addr 0.0.0.0:0" in line
        agent.end()
