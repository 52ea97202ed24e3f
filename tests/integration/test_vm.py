"""The tests in tests/vm and tests/systemd, each folder in a virtual machine, one after the other."""

from __future__ import annotations

import pytest

from tests.integration.guest import LIMIT_S, Report, names_of_guest_tests, run_guest_tests
from tools.vm.machine import GuestFailed, run_in_guest

FOLDERS = ("vm", "systemd")  # each has a fixture of its name
NAMES = [(folder, name) for folder in FOLDERS for name in names_of_guest_tests(folder)]


@pytest.fixture(scope="module")
def vm() -> Report:
    return run_guest_tests("vm")


@pytest.fixture(scope="module")
def systemd() -> Report:
    return run_guest_tests("systemd", systemd=True)


@pytest.mark.timeout(LIMIT_S + 300)  # the first one makes the guest
@pytest.mark.parametrize(("folder", "name"), NAMES)
def test_in_guest(folder: str, name: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> None:
    report: Report = request.getfixturevalue(folder)
    report.check(name, capsys)


@pytest.mark.timeout(LIMIT_S + 300)
@pytest.mark.parametrize("folder", FOLDERS)
def test_the_guest_ran_nothing_else_and_says_so_itself(
    folder: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    report: Report = request.getfixturevalue(folder)
    report.check_all(capsys)


@pytest.mark.timeout(LIMIT_S + 300)  # the first one makes the guest
def test_a_guest_that_does_not_end_is_ended() -> None:
    with pytest.raises(GuestFailed, match="was not done within 5 s"):
        run_in_guest(["sleep", "1000"], limit_s=5)
