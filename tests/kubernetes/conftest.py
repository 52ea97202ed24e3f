"""One real Kubernetes for all tests of this folder, with the images of this checkout; figures are shown at the end."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.integration.images import image_archive
from tools.kubernetes.cluster import Cluster, cluster

HERE = Path(__file__).parent
LIMIT_S = 600  # far more than any takes: two slow cores run the whole cluster
VOLUMES = 12
LOGS = HERE.parents[1] / "build" / "kubernetes-logs"

_figures: list[str] = []


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(HERE) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(LIMIT_S))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for line in _figures:
        terminalreporter.write_line(f"figure: {line}")


@pytest.fixture(scope="session")
def figure() -> Callable[[str], None]:
    """Keep a line with what was measured."""
    return _figures.append


@pytest.fixture(scope="session")
def bare(figure: Callable[[str], None]) -> Iterator[Cluster]:
    """Without images of ours."""
    began = time.monotonic()
    with cluster(keep_logs=LOGS) as running:
        figure(f"Kubernetes ready after {time.monotonic() - began:.1f} s")
        yield running


@pytest.fixture(scope="session")
def kube(bare: Cluster) -> Cluster:
    bare.add_volumes(VOLUMES)
    with image_archive() as archive:
        bare.load(archive)
    return bare
