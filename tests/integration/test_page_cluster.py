"""The pages of the cluster in Chromium: overview, queues, nodes, schedule, on a real master and real agents."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gosched.cli.local_cluster import AgentShape, LocalCluster
from tests.integration.browser import Browser, chromium

SHAPES = [
    AgentShape(resources={"cpu": 4, "memory": "8Gi"}, labels={"zone": "z1", "rack": f"r{number}"}) for number in (1, 2)
]
SETTINGS = {"topology": ["zone", "rack"]}
RUNS = "name: runs\ncount: 2\nestimate: 1h\ntimeout: 2h\nresources: {cpu: 1500m, memory: 16Mi}\nrun: sleep 600\n"
WAITS = "name: waits\ncount: 2\ntimeout: 1h\nresources: {cpu: 4, memory: 16Mi}\nrun: sleep 600\n"
PATHS = ("/", "/queues", "/nodes", "/nodes/agent-1", "/schedule", "/schedule?span=1d&domain=z1/r1")


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(masters=1, agents=SHAPES, settings=SETTINGS) as cluster, cluster.client() as client:
        for text in (RUNS, WAITS):
            client.submit(text)
        yield cluster


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


def base(cluster: LocalCluster) -> str:
    return f"http://{next(iter(cluster.masters.values())).http}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_no_page_of_the_cluster_has_a_serious_barrier_or_an_error(
    cluster: LocalCluster, browser: Browser, scheme: str
) -> None:
    browser.scheme(scheme)
    browser.problems()
    for path in PATHS:
        browser.open(base(cluster) + path)
        browser.wait_for(lambda: browser.all("#link[data-state=live]"), f"{path} is live")
        assert browser.accessibility() == [], path
        assert browser.problems() == [], path


def test_the_overview_says_why_a_job_waits_and_draws_the_last_hour(cluster: LocalCluster, browser: Browser) -> None:
    browser.open(base(cluster) + "/")
    browser.wait_for_text("waits")
    browser.wait_for_text("INSUFFICIENT")
    browser.wait_for_text("job submitted")
    browser.wait_for(lambda: len(browser.all(".plot canvas")) == 3, "the trends of CPUs, memory and jobs are drawn")
    browser.run("document.querySelector('.plot canvas').id = 'kept'")
    with cluster.client() as client:
        client.submit(WAITS.replace("waits", "waits-too"))
    browser.wait_for_text("waits-too")
    assert browser.all("canvas#kept"), "charts stay while the rest of the page is brought up to date"


def test_the_theme_is_chosen_and_kept(cluster: LocalCluster, browser: Browser) -> None:
    browser.scheme("light")
    browser.open(base(cluster) + "/queues")
    ground = "return getComputedStyle(document.body).backgroundColor"
    light = browser.run(ground)
    browser.find("#theme").click()
    assert browser.run(ground) != light
    browser.open(base(cluster) + "/nodes")
    assert browser.run(ground) != light
    browser.find("#theme").click()
    assert browser.run(ground) == light


def test_a_node_is_found_in_the_picture_cordoned_and_opened_again(cluster: LocalCluster, browser: Browser) -> None:
    browser.open(base(cluster) + "/nodes")
    titles = browser.run("return [...document.querySelectorAll('.heat title')].map(title => title.textContent)")
    assert len(titles) == 2
    assert "4 CPUs held" in titles[0]
    browser.open(base(cluster) + "/nodes/agent-1")
    browser.wait_for_text("runs", "#live")
    form = "form[action$='/cordon']"
    browser.find(f"{form} input").send_keys("a look inside")
    browser.find(f"{form} button").click()
    browser.wait_for_text("takes no new tasks", "#notice")
    browser.wait_for_text("CORDONED", "#live")
    assert "a look inside" in browser.text("#live")
    browser.find("form[action$='/uncordon'] button").click()
    browser.wait_for_text("READY", "#live")


def test_the_schedule_shows_what_runs_until_when_and_what_is_reserved(cluster: LocalCluster, browser: Browser) -> None:
    browser.open(base(cluster) + "/schedule?span=6h")
    browser.wait_for_text("reserved start")
    titles = browser.run("return [...document.querySelectorAll('.bars title')].map(title => title.textContent)")
    assert any(title.startswith("runs: ") and "estimated to end at" in title for title in titles)
    assert any(title.startswith("waits: ") and "start reserved for" in title for title in titles)
    kinds = browser.run("return [...document.querySelectorAll('.bars a rect')].map(bar => bar.getAttribute('class'))")
    assert {"g-estimate", "g-promised"} <= set(kinds)
    browser.find(".bars a").click()
    browser.wait_for(lambda: "/jobs/" in browser.driver.current_url, "a bar leads to its job")


def test_everything_can_be_read_without_scripts(cluster: LocalCluster, browser: Browser) -> None:
    browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": True})
    try:
        for path, text in (
            ("/", "Waiting longest"),
            ("/queues", "In numbers"),
            ("/nodes", "agent-2"),
            ("/schedule", "runs"),
        ):
            browser.driver.get(base(cluster) + path)
            assert text in browser.driver.page_source
        browser.driver.get(base(cluster) + "/")
        assert 'points="' in browser.driver.page_source
    finally:
        browser.driver.execute_cdp_cmd("Emulation.setScriptExecutionDisabled", {"value": False})
