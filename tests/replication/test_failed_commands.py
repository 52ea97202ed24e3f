"""Three real replica processes meet a bug in `apply`: refused, or skipped by operators, and the cluster goes on."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gosched.core.commands.cluster import DropWindow, SetFeatureLevel
from gosched.core.commands.command import Command
from gosched.core.features import NEWEST_LEVEL
from gosched.core.outcome import Accepted, Code, Rejected
from gosched.replication.backups.offline import past_of_log
from gosched.replication.disk.disk import PosixDisk
from gosched.replication.interface import ProposalFailed
from gosched.replication.peer_messages import NO_OP, REGULAR
from gosched.replication.replica_config import ReplicaConfig
from gosched.replication.skipping import CannotSkip, skip, with_way_out
from gosched.replication.storage import open_storage
from gosched.state_machine import MachineBug, windows
from gosched.wire.batch import encode_batch, encode_command

from .conftest import Cluster, a_node, until


def drop(state: Any, command: Any, events: Any) -> Any:
    """Take the place of the handler of DropWindow, with two bugs."""
    if command.name == "late":
        state.set_next_sequence(77)
    return {}[command.name]


EARLY, LATE = [
    Command(body=DropWindow(name=name), client_id="test", request_id=name, at_ms=1000) for name in ("early", "late")
]


@pytest.fixture
def bugs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Have the bugs in this process and in the replicas that it starts, until `undo`."""
    folder = tmp_path / "bugs"
    folder.mkdir()
    lines = ["from __future__ import annotations", "from gosched.state_machine import windows"]
    lines += [inspect.getsource(drop).replace("Any", "object"), "windows.drop = drop"]
    (folder / "sitecustomize.py").write_text("\n".join(lines))
    monkeypatch.setenv("PYTHONPATH", f"{folder}:{Path.cwd()}")
    monkeypatch.setattr(windows, "drop", drop)
    return monkeypatch


def snapshots(tmp_path: Path) -> list[Path]:
    return [tmp_path / member / "raft/snapshot" for member in ("m1", "m2", "m3")]


def test_the_cluster_goes_on_after_a_bug_and_after_a_skip(tmp_path: Path, bugs: pytest.MonkeyPatch) -> None:
    async def story() -> None:
        c = Cluster(tmp_path)
        try:
            await c.start()
            await c.commit(Command(body=SetFeatureLevel(level=NEWEST_LEVEL, cluster_id="c"), request_id="level"))
            await refused_alike(c)
            mark = await all_end(c)
            for member in ("m1", "m2"):
                assert "(DropWindow) is skipped" in skip(c.configs[member], mark)
                assert "is skipped" in skip(c.configs[member], mark), "twice does no harm"
            await goes_on(c, mark)
        finally:
            await c.close()

    async def refused_alike(c: Cluster) -> None:
        outcomes = await c.commit(a_node("n1"), EARLY, a_node("n2"))
        assert [type(outcome) for outcome in outcomes] == [Accepted, Rejected, Accepted], "of one entry"
        assert isinstance(outcomes[1], Rejected)
        assert outcomes[1].code is Code.MACHINE_BUG
        await c.converged()
        # So that a release in which the command succeeds does not find it in a log.
        await until(lambda: all(path.exists() for path in snapshots(tmp_path)), what="all have taken a snapshot")

    async def all_end(c: Cluster) -> str:
        """Let the replicas end of a bug, and return the mark of the command."""
        members = [*c.members.values()]
        leader = await c.leader()
        with pytest.raises(ProposalFailed):
            await leader.propose([a_node("n3", request_id="n3"), LATE, a_node("n4", request_id="n4")], timeout_s=20)
        await until(lambda: sum(bool(m.failure) for m in members) >= 2, what="a majority has ended")
        failure = leader.failure
        assert re.match(r"DropWindow at revision \d+ met a bug \(KeyError: 'late'\); it is command 2 of entry", failure)
        assert "upgrade gosched" in failure
        assert "\n" not in failure
        found = re.search(r"--skip-command (\S+) ", failure)
        assert found is not None
        await c.close()
        c.members.clear()
        return found[1]

    async def goes_on(c: Cluster, mark: str) -> None:
        await c.start("m1", "m2")
        answer = (await c.commit(LATE))[0]
        assert isinstance(answer, Rejected), "a repeat gets the refusal of the skipped one"
        assert answer.detail == "DropWindow met a bug of gosched, and operators had it skipped"
        await c.commit(a_node("n5"))
        await c.converged()
        assert {"n1", "n2", "n3", "n4", "n5"} == set(c.members["m1"].state.nodes)
        assert c.members["m1"].state.next_sequence == 1, "nothing is left of what it had begun"
        await third(c, mark)

    async def third(c: Cluster, mark: str) -> None:
        """The third has the entry as it was, or gets it from the others; it cannot differ from them unnoticed."""
        with contextlib.suppress(CannotSkip):  # the log of the third ends before it
            skip(c.configs["m3"], mark)
        bugs.undo()  # it runs a release without the bug
        await c.start("m3")
        await c.commit(a_node("n6"))
        await c.converged()
        skipped = c.members["m3"].state.answer_to("test", "late")
        assert skipped is not None
        assert skipped.code is Code.MACHINE_BUG

    asyncio.run(story())


def test_a_mark_that_is_wrong_changes_nothing_and_a_replay_follows_a_skip(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "drop", drop)
    config = ReplicaConfig(member="m1", data_dir=str(tmp_path))
    level = Command(body=SetFeatureLevel(level=NEWEST_LEVEL, cluster_id="c"))
    commands = [[a_node("n1")], [level, LATE]]
    batches = [encode_batch("p", 1, [encode_command(command) for command in entry]) for entry in commands]
    disk = PosixDisk(config.folder)
    journal = open_storage(disk, cluster="m1", member="m1", bootstrap=True).journal
    for index, content in enumerate([NO_OP, *[REGULAR + batch for batch in batches]], 1):
        journal.add(content, index, 1)
    entry = journal[2]
    journal.close()
    disk.close()
    with pytest.raises(MachineBug) as met:
        past_of_log(tmp_path, 3)
    met.value.position = 2
    assert isinstance(entry, tuple)
    mark = str(with_way_out(met.value, entry)).partition("--skip-command ")[2].split()[0]
    for wrong, why in (
        ("nonsense", "'nonsense' is no mark"),
        ("3.2-000000000000", "is another one than 3.2-000000000000 names"),
        ("1.1-000000000000", "cannot be skipped"),
        ("3.3-000000000000", "has no command 3"),
        ("999.1-000000000000", "ends with entry 3"),
    ):
        with pytest.raises(CannotSkip, match=why):
            skip(config, wrong)
    with pytest.raises(MachineBug):
        past_of_log(tmp_path, 3)
    args = ["--data-dir", str(tmp_path), "--node-id", "m1", "--skip-command", mark, "--log-format", "console"]
    said = subprocess.run(
        [sys.executable, "-m", "gosched.master.main", *args], capture_output=True, text=True, timeout=60, check=False
    )
    assert said.returncode == 0, said.stderr
    assert "command 2 of entry 3 (DropWindow) is skipped" in said.stderr
    assert past_of_log(tmp_path, 3).state.answer_to("test", "late") is not None
