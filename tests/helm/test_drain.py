"""What an agent's pod does around its end where `agent.drainOnShutdown` is set: the scripts of the golden render."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helm.renders import golden_file

DATA_DIR = "/data/gosched"  # of that render
GOSCHEDCTL = """#!/bin/sh
echo "$@" >> "$CALLS"
case "$*" in
  "node show "*) echo '{'; echo "  \\"state\\": \\"$STATE\\","; echo '}' ;;
  "node uncordon "*) exit "$FAILS" ;;
esac
"""


@pytest.fixture
def pod() -> dict[str, Any]:
    objects = yaml.safe_load_all(golden_file("everything").read_text())
    spec: dict[str, Any] = next(o for o in objects if o["kind"] == "DaemonSet")["spec"]["template"]["spec"]
    return spec


class Node:
    """A data directory, and a goschedctl that says the node is in this state."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.mark = folder / "drained-by-pod"
        self.calls = folder / "calls"
        (folder / "node_id").write_text("n-1\n")
        program = folder / "goschedctl"
        program.write_text(GOSCHEDCTL)
        program.chmod(0o755)

    def run(self, script: str, state: str = "READY", fails: int = 0) -> tuple[int, list[str]]:
        """The exit code and what was asked of goschedctl."""
        self.calls.unlink(missing_ok=True)
        env = {
            "PATH": f"{self.folder}:{os.environ['PATH']}",
            "CALLS": str(self.calls),
            "STATE": state,
            "FAILS": str(fails),
        }
        words = ["/bin/sh", "-c", script.replace(DATA_DIR, str(self.folder))]
        code = subprocess.run(words, env=env, timeout=60, check=False).returncode
        return code, self.calls.read_text().splitlines() if self.calls.exists() else []


@pytest.fixture
def node(tmp_path: Path) -> Node:
    return Node(tmp_path)


def end_of(pod: dict[str, Any]) -> str:
    return str(pod["containers"][0]["lifecycle"]["preStop"]["exec"]["command"][-1])


def start_of(pod: dict[str, Any]) -> str:
    return str(pod["initContainers"][0]["args"][0])


def test_a_node_is_drained_before_its_pod_ends_and_comes_back_with_the_next(pod: dict[str, Any], node: Node) -> None:
    code, calls = node.run(end_of(pod))
    assert code == 0
    assert calls[0].startswith("node show n-1")
    assert calls[1].startswith("node drain n-1 --reason the pod of its agent ends --wait --deadline 30s --timeout 50s")
    assert node.run(start_of(pod)) == (0, ["node uncordon n-1"])
    assert node.run(start_of(pod)) == (0, [])


@pytest.mark.parametrize("state", ["CORDONED", "DRAINING", "DEAD"])
def test_a_node_that_somebody_else_closed_stays_closed(pod: dict[str, Any], node: Node, state: str) -> None:
    assert node.run(end_of(pod), state) == (0, ["node show n-1 -o json"])
    assert node.run(start_of(pod)) == (0, [])


def test_a_node_that_cannot_come_back_yet_is_tried_again(pod: dict[str, Any], node: Node) -> None:
    node.mark.touch()
    code, _ = node.run(start_of(pod), fails=5)
    assert code != 0
    assert node.mark.exists()


def test_a_node_that_has_no_id_yet_is_not_looked_for(pod: dict[str, Any], node: Node) -> None:
    (node.folder / "node_id").unlink()
    assert node.run(start_of(pod)) == (0, [])
