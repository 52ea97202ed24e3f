"""The hazards of PySyncObj 0.3.17 that need no cluster to show, and where the others are shown.

| hazard | test |
|---|---|
| 1, 2, 3 rewound logs, false commits, no catching up | tests/sim_raft: rules R1 to R4, each with a mutation |
| 4 nothing synced, no checksums, full disk | test_journal, test_damage, tests/sim_raft profile `crash` |
| 5 damaged snapshot or vote loaded | test_damage, test_journal |
| 6, 8 exceptions and code versions in replicated methods | here, test_damage (newer version) |
| 7 callbacks that raise | here |
| 9 entries just under 64 KiB, huge entries | here, test_cluster |
| 10, 18 open port, pickle, name lookups | test_transport |
| 11 two leaders for half a minute | test_cluster (stopped leader), here |
| 12 no linearizable read | test_cluster (barrier after restart), here |
| 13, 14, 15 unclear outcomes, silent queues, slow batches | here |
| 16, 17 snapshots and computing threads delay heartbeats | benchmarks/replication.py; the replica is a process |
| 19 the tick dies with its maker's thread | the loop is ours (replica.py) |
| 20 a wiped disk forgets its vote | test_cluster (wiped master), tests/sim_raft profile `wipe` |
| 21 one-way partitions burn terms | pre-votes: test_hazards_rules, tests/chaos/test_elections |
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pysyncobj.syncobj as library
import pysyncobj.version
import pytest
from pysyncobj import FAIL_REASON

from gosched.core.commands.cluster import Noop
from gosched.core.commands.command import Command
from gosched.core.commands.nodes import RegisterNode
from gosched.core.outcome import Accepted
from gosched.core.resources import Resources
from gosched.core.state.cluster_state import ClusterState
from gosched.replication.disk.disk import PosixDisk
from gosched.replication.disk.journal import Journal
from gosched.replication.members.configuration import Members
from gosched.replication.members.identity import Identity
from gosched.replication.members.membership import Membership
from gosched.replication.peer_messages import BadFrame, decode, encode
from gosched.replication.raft import raft_node
from gosched.replication.raft.raft_node import MAX_ENTRY_BYTES, RaftNode, UnsupportedLibrary
from gosched.replication.raft.raft_rules import RuledTransport
from gosched.replication.raft.timing import Timing
from gosched.replication.snapshots.snapshots import Snapshots
from gosched.wire.v1 import log_pb2, raft_pb2

from .conftest import cluster


class Silent(RuledTransport):
    ready = True

    def _transmit(self, node: Any, message: Any) -> bool:
        return True

    def destroy(self) -> None:
        pass


def make_node(folder: Path, others: list[str], apply: Any = lambda data: None) -> RaftNode:
    disk = PosixDisk(folder)
    journal = Journal(disk)
    identity = Identity(cluster=",".join(["m1", *others]), member="m1", disk="d", joining=False)
    membership = Membership(disk, identity, others, now=0.0)

    def transport(raft: Any, me: Any, rest: Any) -> RuledTransport:
        return Silent(raft, me, rest, journal=journal, membership=membership)

    snapshots = Snapshots(disk, state=ClusterState, install=lambda state, index: None)
    return RaftNode(
        Members("m1", journal, ClusterState, dict.fromkeys(["m1", *others], "")),
        journal=journal,
        snapshots=snapshots,
        apply=apply,
        transport=transport,
        timing=Timing(),
    )


def lead_alone(node: RaftNode) -> None:
    for _ in range(100):
        node.tick(0.02)
        if node._isLeader():
            return
    raise AssertionError("a cluster of one did not elect itself")


def test_another_version_of_the_library_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pysyncobj.version, "VERSION", "0.3.18")
    with pytest.raises(UnsupportedLibrary, match=r"0\.3\.17"):
        make_node(tmp_path, [])


def test_nothing_is_replicated_by_pickled_calls_and_no_admin_command_is_open(tmp_path: Path) -> None:
    node = make_node(tmp_path, [])
    assert node._methodToID == {}
    with pytest.raises(ValueError, match="pickle is not used"):
        library.pickle.loads(b"")
    with pytest.raises(Exception, match="dynamicMembershipChange is disabled"):
        node.addNodeToCluster("m9")
    node.destroy()


def test_what_apply_raises_ends_the_tick_and_the_entry_is_not_tried_again_in_it(tmp_path: Path) -> None:
    calls = []

    def apply(data: bytes) -> None:
        calls.append(data)
        raise RuntimeError("a bug")

    node = make_node(tmp_path, [], apply)
    lead_alone(node)
    node.propose(b"x", lambda definite, why: None)
    node.tick(0)  # the entry goes into the log and is synced
    with pytest.raises(RuntimeError, match="a bug"):
        node.tick(0)
    assert calls == [b"x"]
    node.destroy()


@pytest.mark.parametrize(
    ("reason", "definite"),
    [
        (FAIL_REASON.MISSING_LEADER, True),
        (FAIL_REASON.QUEUE_FULL, True),
        (FAIL_REASON.DISCARDED, True),
        (FAIL_REASON.LEADER_CHANGED, False),
        (FAIL_REASON.UNKNOWN_OUTCOME, False),
        (FAIL_REASON.NOT_LEADER, False),
    ],
)
def test_only_failures_that_cannot_have_committed_are_called_definite(reason: int, definite: bool) -> None:
    told: list[tuple[bool, str]] = []
    raft_node._failure_callback(lambda *why: told.append(why))(None, reason)
    assert [d for d, _ in told] == [definite]


def test_a_full_queue_says_so_at_once(tmp_path: Path) -> None:
    node = make_node(tmp_path, [])
    lead_alone(node)
    failed: list[bool] = []
    for _ in range(raft_node.QUEUE_SIZE + 3):
        node.propose(b"x", lambda definite, why: failed.append(definite))
    assert failed == [True] * 3
    node.destroy()


def test_a_member_that_does_not_lead_refuses_at_once_and_a_too_large_entry_is_refused(tmp_path: Path) -> None:
    node = make_node(tmp_path, ["m2", "m3"])
    told: list[tuple[bool, str]] = []
    node.propose(b"x", lambda *why: told.append(why))
    node.propose(bytes(MAX_ENTRY_BYTES + 1), lambda *why: told.append(why))
    assert told[0] == (True, "this member does not lead")
    assert "at most" in told[1][1]
    node.destroy()


def test_the_settings_that_the_rules_count_on(tmp_path: Path) -> None:
    node = make_node(tmp_path, [])
    conf = node.conf
    assert conf.leaderFallbackTimeout < 1
    assert not conf.commandsWaitLeader
    assert not conf.appendEntriesUseBatch
    assert not conf.useFork
    assert not conf.autoTick
    assert conf.appendEntriesBatchSizeBytes >= 2 * MAX_ENTRY_BYTES
    node.destroy()


def test_entries_of_every_size_around_64_kib_commit(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path) as c:
            sizes = [*range(65_100, 65_700, 40), *range(130_700, 131_200, 50), 400_000]
            for size in sizes:
                body = RegisterNode(
                    node_id="n",
                    name="n",
                    address="a",
                    incarnation="i",
                    capacity=Resources(),
                    labels=(*((f"k{i:04}", "v" * 200) for i in range(size // 212)), ("pad", "p" * (size % 212))),
                )
                outcome = (await c.commit(Command(body=body)))[0]
                assert outcome is not None
            await c.converged()
            assert c.tries < 2 * len(sizes), "none of them breaks a connection, which would cost a try for each"

    asyncio.run(story())


def test_barriers_of_the_same_moment_share_one_entry(tmp_path: Path) -> None:
    async def story() -> None:
        async with cluster(tmp_path, size=1) as c:
            leader = await c.leader()
            before = leader.state.revision
            revisions = await asyncio.gather(*(leader.barrier() for _ in range(50)))
            assert leader.state.revision == before + 1
            assert set(revisions) == {before + 1}
            assert isinstance((await leader.propose([Command(body=Noop())]))[0], Accepted)

    asyncio.run(story())


def test_messages_survive_the_wire_and_odd_ones_do_not() -> None:
    messages: list[dict[str, Any]] = [
        {"type": "request_vote", "term": 3, "last_log_index": 7, "last_log_term": 2},
        {"type": "response_vote", "term": 3},
        {"type": "next_node_idx", "term": 3, "next_node_idx": 8, "reset": True, "success": False, "joining": True},
        {"type": "timeout_now", "term": 3},
        {
            "type": "append_entries",
            "term": 3,
            "commit_index": 6,
            "prevLogIdx": 6,
            "prevLogTerm": 2,
            "entries": [(b"\x00x", 7, 3), (b"\x01", 8, 3)],
        },
        {"type": "append_entries", "term": 3, "commit_index": 6, "serialized": (b"data", True, False)},
        {"type": "append_entries", "term": 3, "commit_index": 6, "serialized": None},
        {
            "type": "append_entries",
            "term": 3,
            "commit_index": 6,
            "prevLogIdx": None,
            "prevLogTerm": None,
            "entries": [],
        },
    ]
    for message in messages:
        assert decode(encode(message)) == message
    gap = raft_pb2.AppendEntries(term=1, commit_index=1)
    gap.entries.previous_index, gap.entries.previous_term = 1, 1
    gap.entries.entries.add(command=b"\x00x", index=5, term=1)
    membership = raft_pb2.AppendEntries(term=1, commit_index=1)
    membership.entries.previous_index, membership.entries.previous_term = 1, 1
    membership.entries.entries.append(log_pb2.LogEntry(command=b"\x02x", index=2, term=1))
    for bad in (gap, membership):
        with pytest.raises(BadFrame):
            decode(raft_pb2.PeerFrame(append_entries=bad).SerializeToString())
    with pytest.raises(BadFrame):
        decode(b"\xff\xff\xff")
