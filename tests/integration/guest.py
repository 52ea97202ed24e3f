"""A folder of tests that is run once in a virtual machine with pure cgroup v2; each is a test here, too."""

from __future__ import annotations

import ast
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tools.vm.machine import GuestStandsStill, Result, run_in_guest

TESTS = Path(__file__).resolve().parent.parent
LIMIT_S = 2700  # of a guest; on two idle cores it takes a tenth of it
TEST_S = 2 * LIMIT_S + 300  # of the test that is first: it makes the parts of the guest, and maybe a second one
OPTIONS = ["-v", "-p", "no:cacheprovider", "--timeout=600", "--basetemp=/disk/tests", "--junitxml=/out/report.xml"]
OPTIONS += ["-o", "junit_family=xunit1"]  # the one that has properties


@dataclass(frozen=True, slots=True)
class Outcome:
    """`trouble` empty: it passed."""

    name: str
    trouble: str
    figures: tuple[str, ...]
    seconds: float


@dataclass(frozen=True, slots=True)
class Report:
    folder: str
    result: Result
    outcomes: dict[str, list[Outcome]]
    seconds: float
    stood_still: str  # what was seen of a guest before this one that came to nothing

    def check(self, name: str, capsys: pytest.CaptureFixture[str]) -> None:
        """Fails as the guest's test did; shows what it measured."""
        if name not in self.outcomes:
            pytest.fail(f"it was not run; the guest's last words:\n{self.result.console[-3000:]}", pytrace=False)
        for outcome in self.outcomes[name]:
            with capsys.disabled():
                print("".join(f"\n    {line}" for line in outcome.figures), end="\n" if outcome.figures else "")
            if outcome.trouble:
                pytest.fail(outcome.trouble, pytrace=False)

    def check_all(self, capsys: pytest.CaptureFixture[str]) -> None:
        """Nothing else was run, and the guest says the same of it."""
        assert set(self.outcomes) == set(names_of_guest_tests(self.folder))
        troubled = any(outcome.trouble for outcomes in self.outcomes.values() for outcome in outcomes)
        assert (self.result.exit_code == 0) == (not troubled), self.result.console[-3000:]
        with capsys.disabled():
            print(f"\n    the virtual machine: {self.seconds:.0f} s in all")
            if self.stood_still:
                print(f"    it is the second one: {self.stood_still}")


def names_of_guest_tests(folder: str) -> list[str]:
    """`module::test`, as written: no guest is needed to know them."""
    return [
        f"{path.stem}::{node.name}"
        for path in sorted((TESTS / folder).glob("test_*.py"))
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def run_guest_tests(folder: str, *, systemd: bool = False) -> Report:
    """A guest whose kernel or emulator hangs says nothing about the tests: they get another one, once."""
    began = time.monotonic()
    command = [sys.executable, "-m", "pytest", *OPTIONS, f"tests/{folder}"]
    stood_still = ""
    try:
        result = run_in_guest(command, limit_s=LIMIT_S, systemd=systemd)
    except GuestStandsStill as error:
        stood_still = str(error)
        result = run_in_guest(command, limit_s=LIMIT_S, systemd=systemd)
    outcomes: dict[str, list[Outcome]] = {}
    for outcome in _outcomes_in(result.files.get("report.xml", b"<empty/>")):
        outcomes.setdefault(outcome.name, []).append(outcome)
    return Report(folder, result, outcomes, time.monotonic() - began, stood_still)


def _outcomes_in(xml: bytes) -> Iterator[Outcome]:
    """Of a test with parameters there is one for each. A skipped test is trouble: the guest has what is needed."""
    for case in ElementTree.fromstring(xml).iter("testcase"):
        trouble = [f"{bad.get('message')}\n{bad.text}" for bad in case if bad.tag in ("failure", "error", "skipped")]
        figures = [str(found.get("value")) for found in case.iter("property") if found.get("name") == "figure"]
        module = case.get("classname", "").rpartition(".")[2]
        name = f"{module}::{case.get('name', '').partition('[')[0]}"
        output = "".join(part.text or "" for part in case if part.tag in ("system-out", "system-err"))
        told = "\n".join([*trouble, output]) if trouble else ""
        yield Outcome(name, told, tuple(figures), float(case.get("time", "0")))
