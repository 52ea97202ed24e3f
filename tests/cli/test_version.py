"""The version: of one source, and of every program."""

from __future__ import annotations

import json
import re
from importlib.metadata import version
from pathlib import Path

import pytest
from click.testing import CliRunner

import gosched
from gosched.agent.main import main as agent_main
from gosched.cli.main import cli
from gosched.master.main import main as master_main
from tests.master.harness import agent

ROOT = Path(gosched.__file__).parent.parent


@pytest.mark.parametrize(
    ("program", "main"), [("goschedctl", cli), ("gosched-master", master_main), ("gosched-agent", agent_main)]
)
def test_each_program_prints_the_same_version(program, main):
    done = CliRunner().invoke(main, ["--version"])
    assert (done.exit_code, done.output) == (0, f"{program}, version {gosched.__version__}\n")


def test_what_is_installed_has_the_version_of_the_sources():
    assert version("gosched") == gosched.__version__


def test_the_version_is_written_down_once():
    """But for the chart, which no program makes: tests/helm compares it."""
    texts = [ROOT / "pyproject.toml", ROOT / "Makefile", ROOT / "Dockerfile", *ROOT.glob("tools/*.*")]
    mentions = [
        str(path.relative_to(ROOT))
        for path in [*ROOT.glob("gosched/**/*.py"), *texts]
        if re.search(rf"version.*\b{re.escape(gosched.__version__)}\b", path.read_text())
    ]
    assert mentions == ["gosched/__init__.py"]


def test_the_versions_of_masters_and_agents_are_printed(story):
    async def told(master, ctl):
        async with agent(master, "n1") as node:
            await node.beat(master)
            mine, me = gosched.__version__, master.server.record.id
            done = await ctl("version", "--agents")
            assert (done.code, done.err) == (0, "")
            assert [line.split() for line in done.out.splitlines()] == [
                ["PROGRAM", "NAME", "VERSION"],
                ["client", "goschedctl", mine],
                ["master", me, mine],
                ["agent", "n1", "unknown"],
            ]
            found = json.loads((await ctl("version", "-o", "json")).out)
            assert found == {"client": mine, "masters": [{"id": me, "version": mine}], "agents": [], "warnings": []}
            status = json.loads((await ctl("status", "-o", "json")).out)
            assert [m["version"] for m in status["masters"]] == [mine]

    story(told)


def test_skew_is_warned_of_on_stderr_and_in_the_data(story, monkeypatch):
    monkeypatch.setattr("gosched.cli.version_command.__version__", "99.0.0")

    async def told(master, ctl):
        done = await ctl("version", "-o", "json")
        (line,) = json.loads(done.out)["warnings"]
        assert line.startswith("goschedctl 99.0.0 is newer than master ")
        assert (done.code, done.err) == (0, f"warning: {line}\n")

    story(told)


def test_without_a_master_the_own_version_is_printed_and_the_exit_code_is_5(capfdbinary):
    from gosched.cli.main import run_cli

    assert run_cli(["--endpoints", "127.0.0.1:1", "version"]) == 5
    out, err = capfdbinary.readouterr()
    assert gosched.__version__ in out.decode()
    assert err.decode().startswith("goschedctl: no master can be reached: 127.0.0.1:1: connection refused")
    assert err.decode().count("\n") == 1
