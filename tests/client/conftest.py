from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tests.client.fake_cluster import FakeMaster


@pytest.fixture
def start_master() -> Iterator[Callable[..., FakeMaster]]:
    """Starts fake masters; all are stopped at the end."""
    started: list[FakeMaster] = []

    def start(shared: FakeMaster | None = None) -> FakeMaster:
        started.append(FakeMaster(shared))
        return started[-1]

    yield start
    for master in started:
        master.stop()
