"""What a plain installation can do, and what it says about the rest: the packages of the extras are hidden."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from importlib.metadata import requires
from pathlib import Path

import pytest

from gosched import programs

ROOT = Path(__file__).parents[2]
NEED_THE_SERVER = {
    ("local", "up"): "psutil",
    ("simulate", "README.md", "--nodes", "README.md"): "numpy",
    ("replay", "--data-dir", "."): "numpy",
}
HIDE = "import sys; sys.modules.update(dict.fromkeys({hidden!r})); "


def without_extras(code: str, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", HIDE.format(hidden=sorted(programs.OF_EXTRAS)) + code, *args],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
    )


def test_every_command_but_those_that_work_on_this_machine_is_there_without_extras() -> None:
    code = (
        "from gosched.cli.main import COMMANDS, cli\n"
        "for name in COMMANDS:\n"
        "    if name not in ('local', 'simulate', 'replay'): cli.get_command(None, name)\n"
        "from gosched import GoSchedClient\n"
        "from gosched.config import load_agent_settings, load_master_settings, parse_job_file\n"
        "load_master_settings('config/gosched.yaml', {}), load_agent_settings('config/agent.yaml', {})\n"
        "print(parse_job_file(open('examples/nightly.yaml').read(), 'nightly.yaml')[0].name)"
    )
    done = without_extras(code)
    assert (done.returncode, done.stderr, done.stdout) == (0, "", "nightly\n")


@pytest.mark.parametrize("args", NEED_THE_SERVER, ids="-".join)
def test_a_command_that_needs_an_extra_says_what_to_install(args: tuple[str, ...]) -> None:
    done = without_extras("from gosched.cli.main import main; main()", *args)
    missing = NEED_THE_SERVER[args]
    assert done.returncode == 2
    assert done.stderr == (
        f"goschedctl: {missing} is not installed, and this needs it: pip install 'gosched[server]'\n"
    )


@pytest.mark.parametrize("program", ["master", "agent"])
def test_a_daemon_without_its_extra_says_what_to_install(program: str) -> None:
    done = without_extras(f"from gosched.programs import {program}; {program}()", "--version")
    assert done.returncode == 2
    said = rf"gosched-{program}: \w+ is not installed, and this needs it: pip install 'gosched\[{program}\]'\n"
    assert re.fullmatch(said, done.stderr)


def test_a_missing_package_of_no_extra_is_not_explained_away() -> None:
    assert programs.missing_package(ModuleNotFoundError("x", name="gosched.nothing"), "server") == ""


def test_the_packages_of_the_extras_are_those_that_the_imports_contract_forbids() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    forbidden = next(c["forbidden_modules"] for c in contracts if c["name"].startswith("The client and the command"))
    assert set(forbidden) == programs.OF_EXTRAS


def test_a_plain_installation_needs_nothing_of_the_daemons() -> None:
    plain = [line for line in requires("gosched") or [] if "extra ==" not in line]
    heavy = ("numpy", "docker", "pysyncobj", "nvidia", "fastapi", "prometheus", "structlog", "psutil")
    assert plain
    assert [line for line in plain if line.startswith(heavy)] == []
