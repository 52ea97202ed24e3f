"""What happens because time passes, on real processes: arrays, pipelines, schedules, limits, deadlines, windows,
promised starts, and gangs that are repaired where they stand."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from gosched.cli.local_cluster import AgentShape, LocalCluster
from gosched.client import GoSchedClient
from gosched.core.records.job import JobState

from .support import PATIENCE_S, goschedctl, kill_whole, ledger_job, starts, until, until_there

CPUS = 4
RACKS = {"agent-1": "r1", "agent-2": "r1", "agent-3": "r1", "agent-4": "r2"}
SETTINGS = {"lease": {"node_timeout": "4s", "first_lease": "5s", "heartbeat": "500ms"}, "topology": ["rack"]}
LATE_MS = 15_000  # what a busy machine may need for a start; without a promise the gang of the test starts never
SCHEDULE = 'name: minutely\nrun: "true"\nresources: {cpu: 10m, memory: 1Mi}\nschedule: {cron: "* * * * *"}\n'


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    """Three masters; three nodes in one rack and one in another. A schedule runs all the time."""
    shapes = [
        AgentShape(resources={"cpu": CPUS, "memory": "8Gi"}, labels={"rack": rack, "host": name})
        for name, rack in RACKS.items()
    ]
    with LocalCluster(masters=3, agents=shapes, settings=SETTINGS) as running:
        with running.client() as client:
            client.submit(SCHEDULE)
        yield running


@pytest.fixture
def client(cluster: LocalCluster) -> Iterator[GoSchedClient]:
    """Of a cluster that is whole and, but for the schedule, empty, and is left so."""
    with cluster.client() as found:
        until(lambda: all(m.healthy for m in found.get_status().masters), "all masters are well")
        cluster.wait_ready()
        yield found
        for job in found.list_jobs(states=[JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED]):
            if not job.spec.name.startswith("minutely"):
                found.cancel(job.id)
        for window in found.list_reservations().windows:
            found.drop_window(window.name)
        until(lambda: found.get_status().used.cpu_millis < 1000, "the tasks of the test have ended")


def test_an_array_runs_so_many_at_once_and_ends_with_one_failure_too_many(
    cluster: LocalCluster, client: GoSchedClient, tmp_path: Path
) -> None:
    for name, allowed, others in (("some", 2, "0.3"), ("few", 1, "600")):
        fails = f"case $GOSCHED_ARRAY_INDEX in 0|1) sleep 0.3;; 2|3) exit 7;; *) sleep {others};; esac"
        more = f"array: {{range: 0-7, parallelism: 2, max_failures: {allowed}}}\nretry: {{max: 0}}"
        client.submit(ledger_job(name, tmp_path / name, then=fails, more=more))
    assert client.wait("some", timeout=PATIENCE_S).state is JobState.SUCCEEDED
    assert len(starts(tmp_path / "some")) == 8
    shown = json.loads(done(cluster, "job", "show", "some", "-o", "json"))["array"]
    assert (shown["succeeded"], shown["failed"]) == (6, 2)
    alone = [client.get_job(f"some.{n}").job for n in range(8)]
    moments = sorted([(job.placed_at_ms, 1) for job in alone] + [(job.ended_at_ms, -1) for job in alone])
    assert max(sum(step for _, step in moments[: n + 1]) for n in range(len(moments))) == 2
    assert client.wait("few", timeout=PATIENCE_S).state is JobState.FAILED
    assert len(starts(tmp_path / "few")) <= 5, "nothing starts after the second failure"
    assert client.get_job("few.3").job.exit_code == 7


def test_a_job_starts_at_its_begin_and_not_before_and_its_retry_waits_for_none(
    client: GoSchedClient, tmp_path: Path
) -> None:
    text = ledger_job("late", tmp_path / "late", then="exit $((2 - GOSCHED_ATTEMPT))", more="begin: {in: 3s}")
    client.submit(text + "\nretry: {max: 1, when: [failed]}")
    until(lambda: client.explain("late").code == "BEGIN", "the planner has seen it")
    assert client.wait("late", timeout=PATIENCE_S).state is JobState.SUCCEEDED
    job = client.get_job("late").job
    assert (len(starts(tmp_path / "late")), job.restarts) == (2, 1)
    assert job.started_at_ms - job.submitted_at_ms >= 3000


def test_a_pipeline_goes_on_as_its_jobs_end_and_what_can_never_start_is_cancelled(
    cluster: LocalCluster, client: GoSchedClient, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    file = tmp_path / "pipeline.yaml"
    file.write_text(
        "---\n".join(
            [
                ledger_job("mourn", ledger, more="after: {train: failure}"),
                ledger_job("tidy", ledger, more="after: {train: any}"),
                ledger_job("train", ledger, then="sleep 0.5", more="after: {etl: success}"),
                ledger_job("etl", ledger, then=until_there(tmp_path / "go")),
            ]
        )
    )
    done(cluster, "submit", str(file))
    told = done(cluster, "explain", "train")
    assert "DEPENDENCY" in told
    assert "etl" in told
    (tmp_path / "go").touch()
    assert client.wait("tidy", timeout=PATIENCE_S).state is JobState.SUCCEEDED
    mourning = client.wait("mourn", timeout=PATIENCE_S)
    assert (mourning.state, mourning.job.reason) == (JobState.CANCELLED, "DEPENDENCY_FAILED")
    in_order = [client.get_job(name).job for name in ("etl", "train", "tidy")]
    assert [task.rpartition("/")[0].partition("/")[0] for task, _, _ in starts(ledger)] == [job.id for job in in_order]


def test_a_held_job_waits_for_its_release_and_a_suspended_one_for_its_resumption(
    cluster: LocalCluster, client: GoSchedClient, tmp_path: Path
) -> None:
    ledger = tmp_path / "ledger"
    client.submit(ledger_job("patient", ledger, then="sleep 600", more="hold: true"))
    assert "HELD" in done(cluster, "explain", "patient")
    assert starts(ledger) == []
    done(cluster, "job", "release", "patient")
    until(lambda: len(starts(ledger)) == 1, "it runs")
    done(cluster, "job", "suspend", "--free", "patient")
    until(lambda: client.get_job("patient").state is JobState.SUSPENDED, "it has stopped")
    assert "goschedctl job resume" in done(cluster, "explain", "patient")
    done(cluster, "job", "resume", "patient")
    until(lambda: [attempt for _, attempt, _ in starts(ledger)] == [1, 2], "it runs again")


def test_a_job_that_runs_beyond_its_timeout_is_ended(client: GoSchedClient, tmp_path: Path) -> None:
    client.submit(ledger_job("endless", tmp_path / "ledger", then="sleep 600", more="timeout: 2s\nretry: {max: 0}"))
    ended = client.wait("endless", timeout=PATIENCE_S).job
    assert (ended.state, ended.reason) == (JobState.FAILED, "TIMEOUT")
    assert ended.ended_at_ms - ended.placed_at_ms >= 2000


def test_a_deadline_that_cannot_be_met_is_refused_with_what_would_do(
    cluster: LocalCluster, client: GoSchedClient, tmp_path: Path
) -> None:
    def over_all(name: str, then: str, more: str) -> str:
        return ledger_job(name, tmp_path / name, count=len(RACKS), cpu="3", then=then, more=more)

    client.submit(over_all("first", "sleep 600", "timeout: 10m"))
    until(lambda: len(starts(tmp_path / "first")) == len(RACKS), "the cluster is full")
    file = tmp_path / "job.yaml"
    rules = "timeout: 10s\ndeadline: {in: 30s, on_miss: refuse}"
    file.write_text(over_all("urgent", "true", rules))
    planned = goschedctl(cluster.endpoints, "plan", str(file))
    assert (planned.returncode, planned.stderr) == (1, "")
    assert "refused" in planned.stdout
    refused = goschedctl(cluster.endpoints, "submit", str(file))
    assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (1, "", 1)
    earliest = moment_in(refused.stderr)
    ends_ms = client.get_job("first").job.placed_at_ms + 600_000
    assert ends_ms <= earliest < ends_ms + 15_000
    assert "urgent" not in [job.spec.name for job in client.list_jobs()]
    file.write_text(file.read_text().replace("in: 30s", "in: 2h"))
    done(cluster, "submit", str(file))
    assert client.get_job("urgent").state is JobState.PENDING
    (promised,) = client.list_reservations().reservations
    assert promised.for_deadline
    client.cancel("first")
    assert client.wait("urgent", timeout=PATIENCE_S).state is JobState.SUCCEEDED


def test_a_window_keeps_jobs_off_its_node_and_sends_those_away_that_run_there_when_it_starts(
    cluster: LocalCluster, client: GoSchedClient, tmp_path: Path
) -> None:
    again = "retry: {max: 3, when: [preempted, node_lost]}\nplacement: {topology: {level: rack, mode: preferred}}"
    client.submit(ledger_job("guest", tmp_path / "guest", cpu="1", then="sleep 600", more=again))
    until(lambda: len(starts(tmp_path / "guest")) == 1, "it runs")
    (task,) = client.get_job("guest").tasks
    node = task.node_id
    told = done(cluster, "reservation", "create", "disks", "--nodes", node, "--from", "+1h", "--to", "+2h")
    assert told == "disks\n"
    listed = json.loads(done(cluster, "reservation", "list", "-o", "json"))
    assert [(row["id"], row["kind"], row["nodes"]) for row in listed] == [("disks", "window", [node])]
    # The others have room for one task each; the fourth would have to go to this node, and could not end in time.
    client.submit(ledger_job("newcomer", tmp_path / "new", count=4, cpu="3", then="sleep 600", more="gang: {min: 3}"))
    client.submit(ledger_job("brief", tmp_path / "brief", then="sleep 0.1", more=f"timeout: 1s\n{only(node)}"))
    assert client.wait("brief", timeout=PATIENCE_S).state is JobState.SUCCEEDED, "it ends before the window starts"
    assert len(starts(tmp_path / "guest")) == 1
    done(cluster, "reservation", "create", "disks", "--nodes", node, "--from", "+1s", "--to", "+2h")
    until(lambda: len(starts(tmp_path / "guest")) == 2, "it runs elsewhere")
    moved = client.get_job("guest")
    assert (moved.job.attempt, moved.job.restarts, moved.job.preemptions) == (2, 0, 1)
    assert node not in nodes_of(client, "guest")
    assert sorted(filter(None, nodes_of(client, "newcomer"))) == sorted(RACKS.keys() - {node})
    client.submit(ledger_job("late", tmp_path / "late", more=only(node)))
    until(lambda: client.explain("late").code, "a cycle has looked at it")
    assert "disks" in done(cluster, "explain", "late")
    done(cluster, "reservation", "delete", "disks")
    assert client.wait("late", timeout=PATIENCE_S).state is JobState.SUCCEEDED


def test_a_gang_starts_when_it_was_promised_while_small_jobs_go_on_and_the_leader_dies(
    cluster: LocalCluster, client: GoSchedClient, tmp_path: Path
) -> None:
    began = time.monotonic()
    done(cluster, "status")
    # It is there until the gang has waited behind it for some commands' time.
    limit_s = 25 + round(10 * (time.monotonic() - began))
    client.submit(
        ledger_job("long", tmp_path / "long", then="sleep 600", more=f"timeout: {limit_s}s\nretry: {{max: 0}}")
    )
    until(lambda: len(starts(tmp_path / "long")) == 1, "it runs")
    gang = ledger_job("gang", tmp_path / "gang", count=len(RACKS), cpu=str(CPUS))
    file = tmp_path / "gang.yaml"
    file.write_text(gang)
    planned = goschedctl(cluster.endpoints, "plan", str(file))
    assert planned.returncode == 3, planned.stdout + planned.stderr
    client.submit(gang)
    until(lambda: client.list_reservations().reservations, "it was promised a start")
    (promise,) = client.list_reservations().reservations
    ends_ms = client.get_job("long").job.placed_at_ms + limit_s * 1000
    assert ends_ms <= promise.start_ms <= ends_ms + 3000
    assert ": reserved" in done(cluster, "explain", "gang")
    assert json.loads(done(cluster, "reservation", "list", "-o", "json"))[0]["kind"] == "start"
    dead = cluster.leader()
    kill_whole(dead)
    small: list[str] = []
    while client.get_job("gang").state is JobState.PENDING:
        small.append(f"small-{len(small)}")
        client.submit(ledger_job(small[-1], tmp_path / "small", cpu="2", then="sleep 0.5", more="timeout: 2s"))
        time.sleep(0.4)
    placed_ms = client.get_job("gang").job.placed_at_ms
    assert placed_ms <= promise.start_ms + LATE_MS
    before = [job for name in small if 0 < (job := client.get_job(name).job).placed_at_ms < placed_ms]
    assert len(before) >= 5, "small jobs that end in time start before it"
    assert client.wait("gang", timeout=PATIENCE_S).job.attempt == 1
    assert client.get_job("long").job.reason == "TIMEOUT"
    for name in small:
        assert client.wait(name, timeout=PATIENCE_S).state is JobState.SUCCEEDED
    cluster.restart(dead)


def test_a_gang_that_lost_a_node_is_repaired_in_its_rack_and_its_other_rank_stays_where_it_is(
    cluster: LocalCluster, client: GoSchedClient, tmp_path: Path
) -> None:
    place = "placement: {topology: {level: rack, mode: required}}\nretry: {max: 3, when: [node_lost], backoff: 0s}"
    client.submit(ledger_job("gang", tmp_path / "gang", count=2, cpu="3", then="sleep 600", more=place))
    until(lambda: len(starts(tmp_path / "gang")) == 2, "it runs")
    lost, kept = nodes_of(client, "gang")
    assert RACKS[lost] == RACKS[kept] == "r1"
    (spare,) = (node for node, rack in RACKS.items() if rack == "r1" and node not in (lost, kept))
    agent = cluster.agents[lost]
    agent.kill()
    until(lambda: len(starts(tmp_path / "gang")) == 4, "it runs again")
    assert nodes_of(client, "gang") == [spare, kept]
    told = client.get_job("gang").job
    assert (told.attempt, told.restarts) == (2, 0)
    assert sorted((task, attempt) for task, attempt, _ in starts(tmp_path / "gang")[2:]) == [
        (task.id, 2) for task in client.get_job("gang").tasks
    ]
    cluster.restart(agent)


def test_a_schedule_has_run_by_the_minute(client: GoSchedClient) -> None:
    until(lambda: client.get_job("minutely").job.children.succeeded >= 1, "it has run", 60 + PATIENCE_S)
    assert client.get_job("minutely.1").state is JobState.SUCCEEDED


def done(cluster: LocalCluster, *words: str) -> str:
    """What goschedctl prints; it succeeds."""
    result = goschedctl(cluster.endpoints, *words)
    assert result.returncode == 0, result.stderr
    return result.stdout


def only(node: str) -> str:
    """Nowhere else."""
    return f"placement: {{node_selector: {{host: {node}}}}}"


def nodes_of(client: GoSchedClient, name: str) -> list[str]:
    """In order of rank."""
    return [task.node_id for task in client.get_job(name).tasks]


def moment_in(text: str) -> int:
    """Milliseconds since 1970 of the last time in it."""
    return round(datetime.fromisoformat(re.findall(r"\d{4}-\d\d-\d\dT[\d:.]+Z", text)[-1]).timestamp() * 1000)
