"""The tests in tests/vm and tests/systemd, each folder in a virtual machine, one after the other."""

from __future__ import annotations

import pytest

from tests.integration.guest import TEST_S, Report, names_of_guest_tests, run_guest_tests
from tools.vm.machine import GuestFailed, GuestStandsStill, run_in_guest

FOLDERS = ("vm", "systemd")  # each has a fixture of its name
# Stops the beat of one CPU, as a kernel that hangs there would.
STAND_STILL = """for process in /proc/[0-9]*; do [ "$(readlink $process/fd/1)" != /dev/ttyS1 ] ||
! grep -q 'Cpus_allowed_list:.*1$' $process/status || kill -STOP ${process#/proc/}; done; echo stopped; sleep 1000"""
NAMES = [(folder, name) for folder in FOLDERS for name in names_of_guest_tests(folder)]


@pytest.fixture(scope="module")
def vm() -> Report:
    return run_guest_tests("vm")


@pytest.fixture(scope="module")
def systemd() -> Report:
    return run_guest_tests("systemd", systemd=True)


@pytest.mark.timeout(TEST_S)
@pytest.mark.parametrize(("folder", "name"), NAMES)
def test_in_guest(folder: str, name: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]) -> None:
    report: Report = request.getfixturevalue(folder)
    report.check(name, capsys)


@pytest.mark.timeout(TEST_S)
@pytest.mark.parametrize("folder", FOLDERS)
def test_the_guest_ran_nothing_else_and_says_so_itself(
    folder: str, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    report: Report = request.getfixturevalue(folder)
    report.check_all(capsys)


@pytest.mark.timeout(TEST_S)
def test_a_guest_that_does_not_end_is_ended() -> None:
    with pytest.raises(GuestFailed, match="was not done within 5 s"):
        run_in_guest(["sleep", "1000"], limit_s=5)


@pytest.mark.timeout(TEST_S)
def test_a_guest_that_stands_still_is_told_from_one_that_is_slow() -> None:
    each = r"RIP=\w+ HLT=[01] RIP=\w+ HLT=[01]"  # an idle CPU wakes now and then
    with pytest.raises(
        GuestStandsStill, match=rf"CPU 1 has stood still for 60 s; all CPUs: {each}, then {each};(?s:.*)stopped"
    ):
        run_in_guest(["sh", "-c", STAND_STILL], limit_s=600, still_s=60)
