"""A real YARN: two ResourceManagers and a NodeManager of Hadoop. Needs Java 17, and Maven to fetch it once."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from gosched.cli.local_cluster import LocalCluster
from gosched.core.sharing import ceilings, guarantees, lineage
from gosched.integrations.yarn import (
    AsyncYarnClient,
    Submission,
    YarnApplication,
    YarnClient,
    YarnNotFound,
    YarnRefused,
    YarnUnreachable,
)
from gosched.integrations.yarn.queues import read_queues
from gosched.scheduling.fairness.fair_shares import fair_shares
from tests.integrations.yarn.saturation import simulated

from .containers import needs
from .hadoop import CLASSES, HADOOP, Yarn
from .support import PATIENT, goschedctl, until, until_there

QUEUES = Path(__file__).parents[1] / "integrations/yarn/capacity-scheduler.xml"
FAIR = QUEUES.with_name("fair-scheduler.xml")


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    needs("java")
    with Yarn(tmp_path_factory.mktemp("yarn"), scheduler_xml=QUEUES.read_text()) as yarn:
        yield yarn


@pytest.fixture
def client(yarn: Yarn) -> YarnClient:
    return YarnClient(yarn.urls, user="ann")


def submit(client: YarnClient, command: str, **more: object) -> str:
    id = client.new_application().id
    client.submit(Submission(id=id, name="test", command=command, memory_mib=128, **more))  # type: ignore[arg-type]
    return id


def ended(client: YarnClient, id: str) -> YarnApplication:
    until(lambda: client.app(id).has_ended, f"{id} has ended")
    return client.app(id)


def test_a_cluster_says_what_it_is_and_has(client: YarnClient) -> None:
    info, metrics = client.info(), client.metrics()
    assert (info.state, info.ha_state, info.version) == ("STARTED", "ACTIVE", HADOOP)
    assert (metrics.total_memory_mib, metrics.total_vcores, metrics.active_nodes) == (4096, 32, 1)
    (node,) = client.nodes()
    assert (node.state, node.available_memory_mib, node.rack) == ("RUNNING", 4096, "/default-rack")
    assert client.nodes(states=["LOST"]) == ()
    scheduler = client.scheduler()
    assert scheduler.type == "capacityScheduler"
    shares = {queue.path: queue.absolute_capacity_pct for queue in scheduler.root.all()}
    assert shares["root.production"] == 50
    assert shares["root.research.llm"] == pytest.approx(22.5, abs=0.001)


def test_an_application_that_is_submitted_twice_runs_once_and_is_followed_to_its_end(client: YarnClient) -> None:
    id = client.new_application().id
    wanted = Submission(
        id=id,
        name="three",
        command="exit $CODE",
        queue="llm",
        memory_mib=128,
        environment=(("CODE", "3"),),
        tags=("x",),
    )
    client.submit(wanted)
    client.submit(wanted)
    app = ended(client, id)
    assert (app.name, app.user, app.queue, app.tags) == ("three", "ann", "root.research.llm", ("x",))
    assert (app.state, app.final_status) == ("FAILED", "FAILED")
    assert "exitCode: 3" in app.diagnostics
    assert app.log_url.startswith("http://")
    assert app.started_ms <= app.launched_ms <= app.finished_ms
    assert [found.id for found in client.apps(states=["FAILED"], tags=["x"], user="ann")] == [id]
    assert client.apps(user="ben") == ()


def test_one_application_is_listed_as_several_are(client: YarnClient) -> None:
    ids = [submit(client, "true", tags=("listed",)) for _ in range(2)]
    assert {app.id for app in client.apps(tags=["listed"])} == set(ids)
    (one,) = client.apps(tags=["listed"], limit=1)
    assert one.id in ids
    assert client.apps(tags=["nothing has this"]) == ()


def test_a_kill_returns_once_the_application_is_killed(client: YarnClient) -> None:
    id = submit(client, "sleep 600")
    until(lambda: client.app(id).containers, "it runs")
    assert client.kill(id) == "KILLED"
    assert client.state(id) == "KILLED"
    assert client.kill(id) == "KILLED"


def test_what_a_cluster_refuses_is_said_in_its_words(client: YarnClient) -> None:
    with pytest.raises(YarnNotFound, match="application_1_0001 not found"):
        client.kill("application_1_0001")
    too_much = Submission(id=client.new_application().id, name="big", command="true", memory_mib=1 << 20)
    with pytest.raises(YarnRefused, match="Requested more memory than configured max"):
        client.submit(too_much)


def test_the_client_for_asyncio_asks_the_same(yarn: Yarn, client: YarnClient) -> None:
    async def asked() -> tuple[object, object, object, str]:
        later = AsyncYarnClient(yarn.urls, user="ann")
        id = (await later.new_application()).id
        await later.submit(Submission(id=id, name="async", command="sleep 600", memory_mib=128))
        return (
            await later.info(),
            await later.nodes(states=["LOST"]),
            (await later.scheduler()).type,
            await later.kill(id),
        )

    assert asyncio.run(asked()) == (client.info(), (), client.scheduler().type, "KILLED")


def test_the_command_line_shows_submits_and_kills(yarn: Yarn, client: YarnClient) -> None:
    def ctl(*words: str) -> str:
        done = goschedctl("", "yarn", "--rm", ",".join(yarn.urls), "--user", "ann", *words)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert f"Release    {HADOOP}" in ctl("info")
    assert "root.research.llm" in ctl("queues")
    assert len(ctl("nodes").splitlines()) == 2
    id = ctl("submit", "--name", "cli", "--memory", "128Mi", "--tag", "cli", "--", "sleep", "600").strip()
    assert ctl("apps", "--tag", "cli", "-o", "name").split() == [id]
    assert f"{id} (cli)" in ctl("app", id)
    ctl("kill", id)
    assert json.loads(ctl("app", id, "-o", "json"))["state"] == "KILLED"


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(masters=1, agents=1, settings=PATIENT) as cluster:
        yield cluster


def job_of(yarn: Yarn, name: str, line: str) -> str:
    ctl = Path(sys.executable).with_name("goschedctl")
    words = [str(ctl), "yarn", "--rm", ",".join(yarn.urls), "--user", "ann", "run", "--memory", "128Mi", line]
    rules = "retry: {max: 1, when: [failed]}\nresources: {cpu: 0.1, memory: 100Mi}"
    return f"name: {name}\n{rules}\nrun: {json.dumps(words)}\n"


def live(client: YarnClient) -> list[YarnApplication]:
    """Those that tasks of gosched run."""
    return [app for app in client.apps() if not app.has_ended and any(tag.startswith("gosched-") for tag in app.tags)]


def test_a_job_that_is_an_application_ends_as_it_does_and_its_follower_may_die(
    yarn: Yarn, client: YarnClient, cluster: LocalCluster, tmp_path: Path
) -> None:
    tmp_path.chmod(0o755)
    line = f"echo from yarn; {until_there(tmp_path / 'go')}; exit 7"
    with cluster.client() as gosched:
        job = gosched.submit(job_of(yarn, "app", line)).id
        until(lambda: [app for app in live(client) if app.containers], "it runs")
        (app,) = live(client)
        (follower,) = [
            process for process in psutil.process_iter(["cmdline"]) if line in (process.info["cmdline"] or [])
        ]
        follower.kill()
        taken = f"{app.id}: taken over from an earlier start"
        until(lambda: taken in goschedctl(cluster.endpoints, "logs", job).stderr, "the next follower has it")
        (tmp_path / "go").touch()
        detail = gosched.wait(job)
        said = goschedctl(cluster.endpoints, "logs", job)
    assert (detail.state.name, detail.exit_code, detail.job.attempt) == ("FAILED", 7, 2)
    assert said.stdout == "from yarn\n"
    assert [found.id for found in client.apps(tags=[*app.tags])] == [app.id]


def test_a_job_that_is_cancelled_takes_its_application_along(
    yarn: Yarn, client: YarnClient, cluster: LocalCluster
) -> None:
    with cluster.client() as gosched:
        job = gosched.submit(job_of(yarn, "app", "sleep 600")).id
        until(lambda: [app for app in live(client) if app.containers], "it runs")
        (app,) = live(client)
        gosched.cancel(job)
        assert gosched.wait(job).state.name == "CANCELLED"
    assert client.state(app.id) == "KILLED"


def test_imported_queues_have_the_shares_that_the_manager_reports(client: YarnClient) -> None:
    queues = {queue.path: queue for queue in read_queues(QUEUES.read_bytes(), QUEUES.name).queues}
    total = {"cpu": 1_000_000}
    floors, tops = guarantees(queues, total), ceilings(queues, total)
    theirs = {queue.path.removeprefix("root."): queue for queue in client.scheduler().root.all()[1:]}
    assert theirs.keys() == queues.keys()
    for path, queue in theirs.items():
        top = min(tops[above].get("cpu", total["cpu"]) for above in lineage(path))
        assert floors[path]["cpu"] / 10_000 == pytest.approx(queue.absolute_capacity_pct, abs=0.6), path
        assert top / 10_000 == pytest.approx(queue.absolute_max_capacity_pct, abs=0.6), path


def test_a_real_yarn_and_ours_fill_up_alike_under_the_same_trace(yarn: Yarn, client: YarnClient) -> None:
    """24 applications of one container in each of three queues, all there when 32 places become free."""
    demand = {"research.llm": 24, "research.vision": 24, "default": 24}
    blocker = client.new_application().id
    client.submit(Submission(id=blocker, name="all of it", command="sleep 600", memory_mib=4096))
    until(lambda: client.app(blocker).containers, "nothing is free")
    users = [YarnClient(yarn.urls, user=f"user{number}") for number in range(24)]  # YARN has limits by user
    ids = [submit(user, "sleep 600", queue=f"root.{queue}", tags=("fill",)) for user in users for queue in demand]
    until(lambda: all(app.state == "ACCEPTED" for app in client.apps(tags=["fill"])), "all wait")
    client.kill(blocker)
    until(lambda: client.metrics().allocated_vcores == 32, "it is full")
    until(lambda: sum(app.containers for app in client.apps(tags=["fill"])) == 32, "all are there")
    theirs = Counter(app.queue.removeprefix("root.") for app in client.apps(tags=["fill"]) if app.containers)

    async def end_all() -> None:
        later = AsyncYarnClient(yarn.urls, user="ann")
        await asyncio.gather(*(later.kill(id) for id in ids))

    asyncio.run(end_all())
    ours = simulated(read_queues(QUEUES.read_bytes(), QUEUES.name).queues, demand, 32)
    print(f"YARN {dict(theirs)}, gosched {ours}")
    assert sum(ours.values()) == 32
    for queue in demand:
        assert abs(theirs[queue] - ours[queue]) <= 1, (theirs, ours)


def test_after_a_failover_the_other_manager_is_asked_and_knows_the_application(yarn: Yarn, client: YarnClient) -> None:
    """Last: rm2 is active from here on."""
    id = submit(client, "sleep 600")
    until(lambda: client.app(id).containers, "it runs")
    with pytest.raises(YarnUnreachable, match="is on standby, and names"):
        YarnClient([yarn.url("rm2")], failover_s=0).apps()
    assert YarnClient([yarn.url("rm2")]).info().ha_state == "STANDBY"
    yarn.stop("rm1")
    with pytest.raises(YarnUnreachable) as caught:
        YarnClient(yarn.urls, failover_s=0).apps()
    assert f"{yarn.url('rm2')} is on standby" in str(caught.value)
    yarn.activate("rm2")
    assert client.app(id).name == "test"
    assert client.kill(id) == "KILLED"
    assert client.info().ha_state == "ACTIVE"


def test_weights_of_a_real_fair_scheduler_are_ours(tmp_path: Path) -> None:
    text = FAIR.read_text()
    plain = "".join(line for line in text.splitlines(keepends=True) if "minResources" not in line)
    assert plain != text
    (file := tmp_path / FAIR.name).write_text(plain)
    more = {
        "yarn.resourcemanager.scheduler.class": f"{CLASSES}.resourcemanager.scheduler.fair.FairScheduler",
        "yarn.scheduler.fair.allocation.file": file,
    }

    def shares() -> dict[str, int | None]:
        """As YARN last computed them: some time after its node came."""
        return {queue.path.removeprefix("root."): queue.steady_vcores for queue in client.scheduler().root.all()[1:]}

    with Yarn(tmp_path, scheduler_xml="<configuration/>", managers=["rm1"], more=more) as yarn:
        client = YarnClient([yarn.url("rm1")])
        assert client.scheduler().type == "fairScheduler"
        until(lambda: all(shares().values()), "YARN has shared its node")
        theirs = shares()
    queues = {queue.path: queue for queue in read_queues(plain.encode(), FAIR.name).queues}
    assert theirs.keys() == queues.keys()
    total = {"cpu": 32_000}
    ours = fair_shares(queues, total, dict.fromkeys(queues, total), ceilings(queues, total))
    assert {path: share["cpu"] / 1000 for path, share in ours.items()} == pytest.approx(theirs, abs=1)
