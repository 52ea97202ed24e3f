"""`goschedctl replay`: what a master committed is planned again to the same bytes, from its files alone."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest

from gosched.cli.local_cluster import LocalCluster
from gosched.cli.main import run_cli
from gosched.core.commands.cluster import SetQueues
from gosched.core.commands.command import Command
from gosched.core.commands.jobs import SubmitJob
from gosched.core.commands.plans import CommitPlan
from gosched.core.records.queue import Queue
from gosched.core.spec.job_spec import JobSpec
from gosched.replication.backups.offline import NotInLog, _read, past_of_log
from gosched.scheduling import Plan, Policy, ViewBuilder, schedule
from gosched.scheduling.rng_seed import seed_of
from gosched.sim.cluster.replay import replay
from tests.replication.conftest import Cluster, until
from tests.sim_cluster.support import job, nodes

NOW_MS = 1_800_000_000_000


async def planned(cluster: Cluster, now_ms: int) -> Plan:
    """As a leader does it: from the state at a revision, with the seed of that revision."""
    state = (await cluster.leader()).state
    builder = ViewBuilder()
    builder.reset(state)
    return schedule(builder.view(state), Policy(), now_ms, seed_of(state.epoch, state.revision))


async def history(folder: Path, *, compact: bool = False) -> tuple[str, int]:
    """A master that planned some jobs and was killed. Its data directory, and the revision of its newest plan."""
    cluster = Cluster(folder, 1)
    await cluster.start()
    try:
        await cluster.commit(Command(body=SetQueues(queues=(Queue(path="default"),)), at_ms=NOW_MS))
        for node in nodes(3):
            await cluster.commit(Command(body=node, at_ms=NOW_MS))
        revision = 0
        for i in range(6):
            body = SubmitJob(job_id=f"j{i}", spec=_spec(i))
            await cluster.commit(Command(body=body, at_ms=NOW_MS + 1000 * i))
            plan = await planned(cluster, NOW_MS + 1000 * i + 7)
            if commands := plan.commands(0, NOW_MS + 1000 * i + 9):
                revision = plan.revision
                await cluster.commit(*commands)
            if compact and i == 3:
                member = await cluster.leader()
                await member.take_snapshot()
                snapshot = folder / "m1" / "raft" / "snapshot"
                await until(snapshot.exists, what="a snapshot")
    finally:
        await cluster.close()
    return str(folder / "m1"), revision


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, int]:
    return asyncio.run(history(tmp_path_factory.mktemp("whole")))


@pytest.fixture(scope="module")
def compacted(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, int]:
    """Its log begins with a snapshot."""
    return asyncio.run(history(tmp_path_factory.mktemp("compacted"), compact=True))


def _spec(i: int) -> JobSpec:
    """The later ones are too large for what is free, and are promised a start."""
    return replace(job(0, 60, tasks=1 + i % 3, cpus=1 + i % 4, name=f"j{i}").spec, timeout_ms=60_000)


def replayed(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = run_cli(["replay", *words])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.mark.parametrize("which", ["whole", "compacted"])
def test_a_committed_plan_is_made_again_to_the_same_bytes(
    request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str], which: str
) -> None:
    data_dir, revision = request.getfixturevalue(which)
    before = contents(Path(data_dir))
    code, out, err = replayed(capsys, "--data-dir", data_dir, "-o", "json")
    found = json.loads(out)
    assert (code, err) == (0, "")
    assert (found["revision"], found["committed"], found["equal"]) == (revision, True, True)
    assert found["plans"][0]["planned_at_ms"] == found["planned_at_ms"]
    assert replayed(capsys, "--data-dir", data_dir, "-o", "json", "--revision", str(revision))[1] == out
    assert contents(Path(data_dir)) == before, "nothing is written"


def test_a_plan_that_was_not_made_by_this_policy_is_told(
    whole: tuple[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data_dir, _ = whole
    config = tmp_path / "spread.yaml"
    config.write_text("server: {algorithm: spread}\nscheduling: {reservations: 0}\n")
    code, out, _ = replayed(capsys, "--data-dir", data_dir, "--config", str(config))
    assert code == 1
    assert "NOT the committed one" in out


def test_a_cycle_that_committed_nothing_is_planned_at_the_clock_of_the_state(
    whole: tuple[str, int], capsys: pytest.CaptureFixture[str]
) -> None:
    data_dir, _ = whole
    code, out, _ = replayed(capsys, "--data-dir", data_dir, "--revision", "4", "-o", "json")
    found = json.loads(out)
    assert (code, found["committed"], found["equal"]) == (0, False, None)
    assert found["planned_at_ms"] == NOW_MS
    assert found["seed"] == seed_of(0, 4)


def test_a_snapshot_alone_can_be_planned(compacted: tuple[str, int], capsys: pytest.CaptureFixture[str]) -> None:
    data_dir, _ = compacted
    code, out, _ = replayed(capsys, "--snapshot", f"{data_dir}/raft/snapshot", "-o", "json")
    assert code == 0
    assert json.loads(out)["committed"] is False


def test_what_cannot_be_had_is_one_line(
    whole: tuple[str, int], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data_dir, _ = whole
    (tmp_path / "empty").mkdir()
    cases = {
        ("--data-dir", str(tmp_path / "empty")): "is no master's data directory",
        ("--data-dir", data_dir, "--revision", "99999"): "revision 99999 is not in the log",
        ("--snapshot", f"{data_dir}/raft/raft.journal"): "cannot be used",
        (): "give one of --data-dir and --snapshot",
    }
    for words, says in cases.items():
        code, out, err = replayed(capsys, *words)
        assert code in (1, 2)
        assert out == ""
        assert says in err
        assert err.count("\n") == 1


def test_the_comparison_is_of_all_bytes_the_time_included(whole: tuple[str, int]) -> None:
    data_dir, revision = whole
    past = past_of_log(Path(data_dir), revision)
    body = replace(past.plans[0].body, planned_at_ms=0)  # type: ignore[type-var]
    other = replace(past, plans=(replace(past.plans[0], body=body), *past.plans[1:]))  # type: ignore[arg-type]
    assert replay(other, Policy())["equal"] is False
    with pytest.raises(NotInLog):
        past_of_log(Path(data_dir), revision + 10_000)


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def test_every_plan_of_a_real_master_is_made_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with LocalCluster(tmp_path, masters=1, agents=1) as cluster, cluster.client() as client:
        ids = [client.submit(job(0, 0, cpus=1 + i % 2, name=f"j{i}").spec).job_id for i in range(4)]
        for job_id in ids:
            client.wait(job_id, timeout=60)
    home = next(tmp_path.glob("*/raft")).parent
    _, commands = _read(home / "raft")
    revisions = {command.body.revision for command in commands if isinstance(command.body, CommitPlan)}
    assert revisions
    for revision in sorted(revisions):
        code, out, _ = replayed(capsys, "--data-dir", str(home), "--revision", str(revision))
        assert code == 0
        assert "the same as the committed one" in out
