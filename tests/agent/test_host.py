"""What an agent makes of its machine before it takes work."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gosched.agent.cgroups.tree import CgroupTree
from gosched.agent.datadir import DataDir
from gosched.agent.hardware.gpus import Gpu, Gpus
from gosched.agent.host import CannotStart, Host
from gosched.config import AgentSettings, load_agent_settings

LACKING = CgroupTree(root=None, isolation="no memory controller: limits are not enforced")


@pytest.fixture
def without_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CgroupTree, "open", lambda *_: LACKING)


@pytest.mark.usefixtures("without_memory")
def test_a_node_that_cannot_enforce_limits_does_not_start_where_isolation_is_required(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match="isolation is required, and this node has no memory controller"):
        Host.open(settings(tmp_path, "required"), DataDir(tmp_path / "node"))


@pytest.mark.usefixtures("without_memory")
def test_with_best_effort_it_starts_and_says_so(tmp_path: Path) -> None:
    host = Host.open(settings(tmp_path, "best_effort"), DataDir(tmp_path / "node"))
    assert host.tree.isolation == LACKING.isolation
    host.close()


@pytest.mark.parametrize(
    ("gpu", "why"),
    [
        (Gpu(minor=0), "bpf: Operation not permitted"),
        (Gpu(), r"the driver does not tell the device nodes of GPUs \[0\]"),
    ],
)
def test_gpus_that_tasks_cannot_be_kept_off_are_told_like_limits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gpu: Gpu, why: str
) -> None:
    problem = "no device filter (bpf: Operation not permitted)" if gpu.minor == 0 else ""
    monkeypatch.setattr(CgroupTree, "open", lambda *_: CgroupTree(root=tmp_path, lock=os.open(tmp_path, os.O_RDONLY)))
    monkeypatch.setattr("gosched.agent.host.devices.problem", lambda: problem)
    monkeypatch.setattr("gosched.agent.host.find_gpus", lambda: Gpus([gpu]))
    with pytest.raises(CannotStart, match=f"required, and this node has no device filter .{why}.: tasks are not kept"):
        Host.open(settings(tmp_path, "required", "found"), DataDir(tmp_path / "node"))
    host = Host.open(settings(tmp_path, "best_effort", "found"), DataDir(tmp_path / "best"))
    assert "tasks are not kept off GPUs of others" in host.tree.isolation
    assert "devices" in host.missing()
    host.close()


def settings(home: Path, isolation: str, hardware: str = "static") -> AgentSettings:
    config = home / "agent.yaml"
    config.write_text(f"isolation: {isolation}\nhardware: {hardware}\nusers: {{own: true}}\n")
    return load_agent_settings(str(config), {"data_dir": str(home / "node")})
