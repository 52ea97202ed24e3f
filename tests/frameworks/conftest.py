"""A cluster for each test, and the table of all rows at the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from tests.frameworks.hosts import Cluster
from tests.frameworks.runs import Row, Run, table

LIMIT_S = 400

NewRun = Callable[[str, str], Run]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--table", metavar="FILE", help="write the table of the frameworks' figures there, too")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(Path(__file__).parent):
            item.add_marker(pytest.mark.timeout(LIMIT_S))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    passed = {report.nodeid for report in terminalreporter.getreports("passed")}
    # Rows are taken after the tests, so they come with the reports of the fixtures' ends.
    ends = [report for report in terminalreporter.getreports("") if report.when == "teardown"]
    rows = [
        (Row(**value), report.nodeid in passed)
        for report in ends
        for name, value in report.user_properties
        if name == "row"
    ]
    if rows:
        text = table(rows)
        terminalreporter.write_line("\n" + text)
        if file := config.getoption("--table"):
            Path(file).write_text(text + "\n")


@pytest.fixture
def lease() -> dict[str, str]:
    """Return what the masters' settings say of leases: nothing."""
    return {}


@pytest.fixture
def three_nodes(tmp_path: Path, lease: dict[str, str]) -> Iterator[Cluster]:
    with Cluster(tmp_path / "cluster", lease) as cluster:
        yield cluster


@pytest.fixture
def new_run(tmp_path: Path, three_nodes: Cluster, record_property: Callable[[str, object], None]) -> Iterator[NewRun]:
    """Return what makes a run by its framework and its policy. Its row is taken whatever the test then claims."""
    shared = tmp_path / "shared"
    shared.mkdir()
    with three_nodes.client() as client:
        runs: list[Run] = []

        def make(framework: str, policy: str) -> Run:
            runs.append(Run(three_nodes, client, shared, framework, policy))
            return runs[-1]

        yield make
        for run in runs:
            if run.before:
                record_property("row", asdict(run.row()))
