"""How long a test of whole clusters may take before it counts as hung."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

HERE = Path(__file__).parent
LIMIT_S = 400  # far more than any takes: processes of a dozen clusters and a virtual machine may share two slow cores


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LIMIT_S))


@pytest.fixture
def open_path() -> Iterator[Path]:
    """A directory that every account can pass through, as an agent of root asks of its own: pytest's are closed."""
    with tempfile.TemporaryDirectory(prefix="gosched-open-") as name:
        Path(name).chmod(0o755)
        yield Path(name)
