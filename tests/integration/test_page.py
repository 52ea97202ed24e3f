"""The web page in Chromium, on three masters and two agents: what people do with it, also when masters are killed."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select

from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.cli.local_program import Program
from gosched.client import GoSchedClient
from gosched.core.records.job import JobState
from gosched.core.records.task import TaskState
from tests.integration.browser import NARROW, WIDE, Browser, chromium
from tests.integration.support import PATIENCE_S, kill_whole, until, until_all_serve

QUEUES = {
    "queues": [
        {
            "name": "research",
            "type": "fair",
            "children": [{"name": "llm", "type": "fair"}, {"name": "vision", "type": "fair", "limit": {"cpu": 2}}],
        },
        {"name": "default", "type": "fair"},
    ]
}
SHAPE = AgentShape(resources={"cpu": 4, "memory": "8Gi", "storage": "16Gi"})
GANG = """
name: gang
queue: research.llm
labels: {team: nlp}
count: 3
estimate: 1h
resources: {cpu: 500m, memory: 16Mi}
run: 'i=0; while true; do i=$((i+1)); echo "step $i of $GOSCHED_TASK_INDEX"; sleep 0.5; done'
"""
LONG = "sleep 600" + " # and so on" * 100  # it has a scroll bar of its own
WAITS = f"name: waits\nqueue: research.vision\ncount: 3\nresources: {{cpu: 1, memory: 16Mi}}\nrun: '{LONG}'\n"
SWEEP = "name: sweep\narray: {range: 0-3}\nresources: {cpu: 10m, memory: 16Mi}\nrun: 'true'\n"
FITS = "return document.documentElement.scrollWidth <= window.innerWidth"
EVIL = "<img src=x onerror=\"document.title='broken'\"><script>document.title='broken'</script>"
# As a YAML text; names and labels themselves take no such characters.
HOSTILE = f"""
name: hostile
resources: {{cpu: 10m, memory: 16Mi}}
env: {{NOTE: "{EVIL.replace('"', chr(92) + '"')}"}}
run: |
  cat <<'END'
  {EVIL}
  END
  printf '\\033[31mred\\033[0m and \\033]0;broken\\007plain\\n10%%\\r100%%\\n'
  exit 3
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(masters=3, agents=[SHAPE, SHAPE], settings=QUEUES) as cluster, cluster.client() as client:
        for text in (GANG, WAITS, SWEEP):
            client.submit(text)
        until(lambda: client.get_job("gang").job.running == 3, "the gang runs")
        until(lambda: client.get_job("waits").waiting_for, "the other one waits")
        yield cluster


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as window:
        yield window


@pytest.fixture(autouse=True)
def nothing_went_wrong(browser: Browser) -> Iterator[None]:
    """No page has an error in its console, or does what its policy forbids. What fails because a master was killed is
    read by the test that kills it."""
    yield
    assert browser.problems() == []


def url(master: Program, path: str) -> str:
    return f"http://{master.http}{path}"


def follower(cluster: LocalCluster) -> Program:
    leader = cluster.leader()
    return next(master for master in cluster.masters.values() if master is not leader)


def paths(browser: Browser, cluster: LocalCluster) -> list[str]:
    """Return all parts of the site by its own navigation, and the pages of three jobs."""
    browser.open(url(cluster.leader(), "/"))
    parts = browser.run("return [...document.querySelectorAll('header nav a')].map(a => a.getAttribute('href'))")
    job = [f"/jobs/gang{page}" for page in ("", "/logs", "/usage", "/spec")]
    return [*parts, *job, "/jobs/waits", "/jobs/sweep", "/submit", "/jobs?state=cancelled", "/jobs/no-such-job"]


def test_no_page_has_a_serious_barrier_or_an_error_in_light_and_dark_and_on_a_narrow_screen(
    cluster: LocalCluster, browser: Browser
) -> None:
    found = {}
    for path in paths(browser, cluster):
        browser.open(url(cluster.leader(), path))
        for scheme in ("light", "dark"):
            browser.scheme(scheme)
            if barriers := browser.accessibility():
                found[path, scheme] = barriers
        browser.scheme("light")
        expected = ["404"] if path == "/jobs/no-such-job" else []
        problems = [problem for problem in browser.problems() if not any(word in problem for word in expected)]
        assert problems == [], path
        browser.resize(NARROW)
        browser.wait_for(lambda: browser.run(FITS), f"{path} fits a narrow screen", 5)
        browser.resize(WIDE)
    assert found == {}


def test_jobs_are_filtered_by_the_address_and_those_that_wait_come_first_with_their_reason(
    cluster: LocalCluster, browser: Browser
) -> None:
    browser.open(url(follower(cluster), "/jobs"))
    browser.wait_for(lambda: "QUEUE_LIMIT" in browser.text("tbody tr"), "the first job waits, and it says why")
    assert "waits" in browser.text("tbody tr")
    assert "its limit is 2" in browser.text("tbody tr")
    Select(browser.find("select[name=state]")).select_by_value("running")
    browser.find("input[name=label]").send_keys("team=nlp", Keys.ENTER)
    browser.wait_for(lambda: "label=team%3Dnlp" in browser.driver.current_url, "the filter is in the address")
    assert [row.text.split()[0] for row in browser.all("tbody tr")] == ["gang"]
    browser.open(url(follower(cluster), "/jobs?state=runing"))
    assert 'did you mean "running"' in browser.text(".notice.bad")
    browser.open(url(follower(cluster), "/jobs?name=nothing-is-called-this"))
    assert "None of" in browser.text(".empty")


def test_a_job_is_planned_submitted_by_keyboard_and_followed_to_its_end_with_its_logs(
    cluster: LocalCluster, browser: Browser, tmp_path: Path
) -> None:
    go_on = tmp_path / "go-on"
    browser.open(url(follower(cluster), "/submit"))
    field = browser.driver.switch_to.active_element
    assert field.get_attribute("name") == "name", "it can be written in at once"
    field.send_keys("by-hand", Keys.TAB, Keys.TAB, Keys.TAB, Keys.TAB)
    command = f"echo first line; until [ -e {go_on} ]; do sleep 0.1; done; echo last line"
    browser.driver.switch_to.active_element.send_keys(command)
    browser.find("input[name=memory]").clear()
    browser.find("input[name=memory]").send_keys("16Mi", Keys.ENTER)
    browser.wait_for_text("It would start now on agent-", "#plan")
    assert not browser.driver.current_url.endswith("by-hand"), "a plan submits nothing"
    with cluster.client() as client:
        assert not [job for job in client.list_jobs() if job.spec.name == "by-hand"]
        browser.find("button.main").send_keys(Keys.ENTER)
        browser.wait_for(lambda: "/jobs/j-" in browser.driver.current_url, "its page is shown")
        browser.wait_for(lambda: browser.text("#state") == "RUNNING", "it runs, and the page says so by itself")
        assert browser.text("h1") == "by-hand"
        browser.find(".tabs a[href$='/logs']").click()
        browser.wait_for_text("first line", "#log")
        assert "last line" not in browser.text("#log")
        go_on.touch()
        browser.wait_for_text("last line", "#log")
        browser.wait_for(lambda: browser.text("#state") == "SUCCEEDED", "its end is shown")
        browser.wait_for_text("ended", "#log-state")
        assert client.get_job("by-hand").state is JobState.SUCCEEDED


def test_a_wrong_job_file_is_explained_with_its_line_and_key(cluster: LocalCluster, browser: Browser) -> None:
    browser.open(url(cluster.leader(), "/submit"))
    browser.find("input[value=yaml]").click()
    browser.find("textarea[name=yaml]").send_keys("name: wrong\nrun: 'true'\nresources: {memory: 7}\n")
    browser.find("#submit button").click()
    browser.wait_for_text("YAML:3: resources.memory", "#plan")
    browser.find("textarea[name=yaml]").clear()
    browser.find("textarea[name=yaml]").send_keys(
        "name: fine\nqueue: research.vision\ncount: 9\nrun: 'true'\nresources: {cpu: 1}\n"
    )
    browser.find("#submit button").click()
    browser.wait_for_text("It would wait", "#plan")


def test_the_same_form_sent_twice_submits_one_job(cluster: LocalCluster, browser: Browser) -> None:
    browser.open(url(cluster.leader(), "/submit"))
    send = """
        const done = arguments[arguments.length - 1];
        const form = new URLSearchParams({mode: "yaml", nonce: document.querySelector("[name=nonce]").value,
            yaml: "name: once\\nrun: 'true'\\nresources: {cpu: 10m}\\n"});
        const one = () => fetch("/ui/submit", {method: "POST", body: form, headers: {"HX-Request": "true"}})
            .then(answer => answer.headers.get("HX-Redirect"));
        Promise.all([one(), one()]).then(done, error => done([String(error)]));
    """
    first, second = browser.driver.execute_async_script(send)
    assert first.startswith("/jobs/j-")
    assert first == second


def test_html_in_commands_variables_and_log_lines_does_not_run(cluster: LocalCluster, browser: Browser) -> None:
    with cluster.client() as client:
        client.submit(HOSTILE)
        client.wait("hostile", timeout=PATIENCE_S)
    for page in ("", "/logs", "/usage", "/spec"):
        browser.open(url(cluster.leader(), f"/jobs/hostile{page}"))
        if page == "/logs":
            browser.wait_for_text("plain", "#log")
            assert EVIL in browser.text("#log"), "it is shown as it was written"
            assert "red and plain" in browser.text("#log"), "without escape sequences"
            browser.wait_for_text("\n100%", "#log")
        elif page != "/usage":
            assert "onerror" in browser.text(), "it is shown as it was written"
        assert browser.driver.title.startswith("hostile")
        assert browser.all("img[src=x]") == []


def test_a_job_is_cancelled_only_after_a_question(cluster: LocalCluster, browser: Browser) -> None:
    with cluster.client() as client:
        job = client.submit("name: unwanted\nresources: {cpu: 10m, memory: 16Mi}\nrun: sleep 600\n").job_id
        browser.open(url(follower(cluster), f"/jobs/{job}"))
        browser.wait_for(lambda: browser.text("#state") == "RUNNING", "it runs")
        browser.find("form[action$='/cancel'] button").send_keys(Keys.ENTER)
        browser.find("dialog[open]").send_keys(Keys.ESCAPE)
        browser.wait_for(lambda: not browser.all("dialog"), "the question is gone")
        time.sleep(0.5)
        assert client.get_job(job).state is JobState.RUNNING
        browser.find("form[action$='/cancel'] button").send_keys(Keys.ENTER)
        browser.find("dialog[open] button[value=yes]").send_keys(Keys.ENTER)
        browser.wait_for(lambda: browser.text("#state") == "CANCELLED", "it is cancelled, and the page says so")


def test_an_elastic_job_is_scaled_by_a_number_that_is_asked_for(cluster: LocalCluster, browser: Browser) -> None:
    elastic = "name: elastic\ncount: 3\ngang: {min: 1}\nresources: {cpu: 10m, memory: 16Mi}\nrun: sleep 600\n"
    with cluster.client() as client:
        job = client.submit(elastic).job_id
        browser.open(url(follower(cluster), f"/jobs/{job}"))
        browser.wait_for(lambda: browser.text("#state") == "RUNNING", "it runs")
        until(lambda: running(client, job) == 3, "all its tasks run")
        browser.find("form[action$='/scale'] button").click()
        number = browser.find("dialog[open] input")
        assert number.get_attribute("value") == "3"
        assert browser.accessibility() == []
        for text, left in (("4", 1), ("", 1), ("1", 0)):
            number.clear()
            number.send_keys(text, Keys.ENTER)
            browser.wait_for(lambda n=left: len(browser.all("dialog[open]")) == n, f"{text!r} is taken or not")
        until(lambda: running(client, job) == 1, "the others are stopped")
        browser.find("form[action$='/scale'][data-now='1'] button").click()
        assert browser.find("dialog[open] input").get_attribute("value") == "1"
        browser.find("dialog[open] button[type=button]").click()
        browser.wait_for(lambda: not browser.all("dialog"), "the question is gone")
        client.cancel(job)
    assert browser.problems() == []


def running(client: GoSchedClient, job: str) -> int:
    return sum(task.state is TaskState.RUNNING for task in client.get_job(job).tasks)


def test_usage_is_drawn_while_it_is_looked_at(cluster: LocalCluster, browser: Browser) -> None:
    browser.open(url(follower(cluster), "/jobs/gang/usage"))
    browser.wait_for(lambda: len(browser.all("#usage canvas")) >= 2, "charts of CPUs and memory are drawn")
    browser.wait_for_text("3 tasks hold a place", "#usage-state")


def test_a_job_that_won_the_third_time_shows_its_attempts_and_their_logs(
    cluster: LocalCluster, browser: Browser
) -> None:
    with cluster.client() as client:
        client.submit(
            "name: third\nretry: {max: 3, when: [failed], backoff: 100ms}\nresources: {cpu: 10m, memory: 16Mi}\n"
            "run: 'echo try $GOSCHED_ATTEMPT; [ $GOSCHED_ATTEMPT -ge 3 ]'\n"
        )
        client.wait("third", timeout=PATIENCE_S)
    browser.open(url(follower(cluster), "/jobs/third"))
    browser.wait_for(lambda: browser.text("#state") == "SUCCEEDED", "it has won")
    attempts = "table a[href*='attempt=']"
    browser.wait_for(lambda: len(browser.all(attempts)) == 3, "its three attempts are listed")
    assert len(browser.all(".timeline .mark.failed")) == 2
    assert len(browser.all(".timeline rect.succeeded title")) == 1
    browser.find("table a[href$='attempt=2']").click()
    browser.wait_for_text("try 2", "#log")
    assert "try 3" not in browser.text("#log")


def test_a_page_outlives_its_own_master_which_led(cluster: LocalCluster, browser: Browser) -> None:
    leader = cluster.leader()
    browser.open(url(leader, "/jobs"))
    browser.wait_for(lambda: browser.all("#link[data-state=live]"), "the page is live")
    kill_whole(leader)
    try:
        others = [master.http for master in cluster.masters.values() if master is not leader]
        browser.wait_for(
            lambda: any(http in browser.driver.current_url for http in others), "it went to another master"
        )
        assert browser.driver.current_url.endswith("/jobs")
        with cluster.client() as client:
            client.submit("name: after-the-end\nresources: {cpu: 10m, memory: 16Mi}\nrun: sleep 600\n")
        browser.wait_for_text("after-the-end", "tbody")
        browser.problems()  # the requests to the master that is gone
    finally:
        cluster.restart(leader)
        cluster.wait_ready()
        until_all_serve(cluster)


def test_a_page_of_a_follower_stays_and_goes_on_when_the_leader_is_killed(
    cluster: LocalCluster, browser: Browser
) -> None:
    leader, stays = cluster.leader(), follower(cluster)
    browser.open(url(stays, "/jobs/gang/logs"))
    browser.wait_for_text("step", "#log")
    kill_whole(leader)
    try:
        with cluster.client() as client:
            until(lambda: client.get_status().leader not in ("", leader.id), "another master leads")
        seen = browser.text("#log")
        browser.wait_for(lambda: browser.text("#log").splitlines()[-1] not in seen, "lines go on", 2 * PATIENCE_S)
        assert stays.http in browser.driver.current_url
        steps = [int(line.split()[1]) for line in browser.text("#log").splitlines() if line.endswith(" of 0")]
        assert steps == list(range(steps[0], steps[0] + len(steps))), "no line is lost or doubled"
        browser.problems()  # calls that were under way
    finally:
        cluster.restart(leader)
        cluster.wait_ready()
        until_all_serve(cluster)
