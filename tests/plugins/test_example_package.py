"""The example plugin, a package of its own: installed as users do it, found by its entry point, used by a cycle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import gosched

ROOT = Path(gosched.__file__).parents[1]
PACKAGE = ROOT / "examples" / "plugins" / "gosched-cheapest"
LIMIT_S = 100

PLANNING = """
import json, sys
from gosched.config.settings import PluginConfig
from gosched.master.planning.plugin_loader import load_plugins
from gosched.master.planning.plugin_runner import PluginRunner
from tests.plugins.cluster import labelled, plan_with
from tests.scheduling.support.cluster import node, where

config = PluginConfig.model_validate({"name": "cheapest", "timeout": "30s", "options": json.loads(sys.argv[1])})
nodes = [node(i, labels=(("cents", c),)) for i, c in [("dear", "300"), ("fair", "200"), ("cheap", "100")]]
jobs = [labelled(1, {}, cpu=3), labelled(2, {"max-price": "250"}, cpu=3), labelled(3, {"max-price": "250"}, cpu=3)]
plan = plan_with(load_plugins([config]), nodes, jobs, runner=PluginRunner({"cheapest": config.timeout_ms}))
print(json.dumps({"where": where(plan), "refused": plan.explanations["j3"].refused, "faults": plan.faults}))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the package is installed; nothing is fetched, nothing else sees it."""
    target = tmp_path_factory.mktemp("site")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps", "--no-build-isolation"]
    done = subprocess.run(
        [*pip, "--disable-pip-version-check", "--target", str(target), str(PACKAGE)],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return target


def planned(*paths: Path, options: str = '{"price_label": "cents"}') -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(map(str, [ROOT, *paths]))}
    command = [sys.executable, "-c", PLANNING, options]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)


def test_an_installed_package_is_found_and_used(site: Path) -> None:
    done = planned(site)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "where": {"j1": "cheap", "j2": "fair"},
        "refused": [["too dear", 1], ["short of CPU", 2]],
        "faults": [],
    }


def test_a_package_that_is_not_installed_is_not_there() -> None:
    done = planned(PACKAGE)  # the code can be imported, but nothing announces it
    assert done.returncode != 0
    assert "no plugin cheapest is installed; there are hadoop, kubernetes, spark" in done.stderr


def test_its_options_are_checked(site: Path) -> None:
    done = planned(site, options='{"price": "cents"}')
    assert "plugin cheapest: it has no option 'price'; there are price_label" in done.stderr
