"""The web page of a cluster of 5,000 nodes and 5,000 jobs: each page is there soon, and stays live.

Figures, and those of 20,000 jobs, are `benchmarks/page.py`'s; the bound here is generous, for this machine may be doing
a dozen other things.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gosched.cli.local_cluster import LocalCluster
from tests.integration.browser import Browser, chromium
from tests.integration.simulated import large_cluster

BOUND_MS = 10_000
JOBS = 5_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with large_cluster(nodes=5_000, jobs=JOBS) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as window:
        yield window


def test_each_page_of_a_large_cluster_is_there_soon_and_has_no_serious_barrier(
    cluster: LocalCluster, browser: Browser
) -> None:
    http = cluster.leader().http
    browser.open(f"http://{http}/")
    parts = browser.run("return [...document.querySelectorAll('header nav a')].map(a => a.getAttribute('href'))")
    for path in (
        *parts,
        "/jobs?state=running&page=50",
        "/jobs?name=llm-00001",
        "/jobs/llm-00000",
        f"/jobs/batch-{JOBS - 1:05}",
    ):
        times = browser.open(f"http://{http}{path}")
        print(f"{path}: server {times['server_ms']:.0f} ms, loaded {times['loaded_ms']:.0f} ms, {times['bytes']:.0f} B")
        assert times["loaded_ms"] < BOUND_MS, path
        assert browser.all("#live")
        assert browser.problems() == [], path
        assert browser.accessibility() == [], path


def test_the_list_of_a_large_cluster_shows_a_new_job_by_itself_and_holds_one_page_of_rows(
    cluster: LocalCluster, browser: Browser
) -> None:
    browser.open(f"http://{cluster.leader().http}/jobs?sort=newest")
    assert len(browser.all("tbody tr")) == 100
    with cluster.client() as client:
        client.submit("name: just-now\nqueue: production\nresources: {cpu: 1, memory: 1Mi}\nrun: 'true'\n")
    browser.wait_for_text("just-now", "tbody tr")
    assert len(browser.all("tbody tr")) == 100
    assert browser.problems() == []
