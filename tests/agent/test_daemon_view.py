"""What an agent sees of a daemon; agents in containers are in tests/integration/test_images.py."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from gosched.agent.runtimes.daemon_view import difference


@pytest.fixture
def line(tmp_path: Path) -> Iterator[socket.socket]:
    """To a daemon of this machine, which is this process."""
    with socket.socket(socket.AF_UNIX) as daemon, socket.socket(socket.AF_UNIX) as caller:
        daemon.bind(str(tmp_path / "socket"))
        daemon.listen()
        caller.connect(str(tmp_path / "socket"))
        yield caller


def test_a_daemon_of_this_machine_sees_what_the_agent_sees(line: socket.socket, tmp_path: Path) -> None:
    assert difference(line, tmp_path) == ""


def test_a_directory_that_the_daemon_does_not_have_is_named_with_what_to_do(line: socket.socket) -> None:
    missing = Path("/var/lib/no-such-directory")
    assert difference(line, missing).endswith(
        "run it with --volume=/var/lib/no-such-directory:/var/lib/no-such-directory"
    )
