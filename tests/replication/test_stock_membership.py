"""What PySyncObj's own dynamic membership does, and ours does not: why `dynamicMembershipChange` stays off.

The stock library, with the in-memory links of this file. Two majorities without a member in common commit different
commands at the same index: each is acknowledged, and one of them is lost.
"""

from __future__ import annotations

from typing import Any

import pysyncobj.pickle as pickle
import pysyncobj.syncobj as library
import pytest
from pysyncobj import FAIL_REASON, SyncObj, SyncObjConf, replicated
from pysyncobj.node import Node
from pysyncobj.transport import Transport


class Wire:
    """Links between members; `parts` are groups that hear only themselves."""

    def __init__(self) -> None:
        self.members: dict[str, Hand] = {}
        self.parts: list[set[str]] = []
        self.now = 0.0

    def joined(self, one: str, other: str) -> bool:
        return not self.parts or any(one in part and other in part for part in self.parts)


class Hand(Transport):
    """A transport of the stock library that delivers within `Wire`, in order, once a turn."""

    wire: Wire

    def __init__(self, sync_obj: Any, self_node: Any, other_nodes: Any) -> None:
        super().__init__(sync_obj, self_node, other_nodes)
        self.me = self_node.id
        self.known = {node.id for node in other_nodes}
        self.inbox: list[tuple[str, dict[str, Any]]] = []
        self.wire.members[self.me] = self

    @property
    def ready(self) -> bool:
        return True

    def tryGetReady(self) -> None:
        pass

    def addNode(self, node: Any) -> None:
        self.known.add(node.id)

    def dropNode(self, node: Any) -> None:
        self.known.discard(node.id)

    def send(self, node: Any, message: dict[str, Any]) -> bool:
        if node.id in self.wire.members and self.wire.joined(self.me, node.id):
            self.wire.members[node.id].inbox.append((self.me, message))
            return True
        return False

    def deliver(self) -> None:
        for other in self.wire.members:
            if other != self.me and other in self.known and self.wire.joined(self.me, other):
                self._onNodeConnected(Node(other))
            elif other != self.me:
                self._onNodeDisconnected(Node(other))
        inbox, self.inbox = self.inbox, []
        for sender, message in inbox:
            if self.wire.joined(self.me, sender):
                self._onMessageReceived(Node(sender), message)


class Stock(SyncObj):
    """A member; `done` are the commands that it applied."""

    def __init__(self, me: str, others: str) -> None:
        self.done: list[str] = []
        conf = SyncObjConf(autoTick=False, dynamicMembershipChange=True, appendEntriesUseBatch=False)
        super().__init__(Node(me), [Node(o) for o in others], conf, nodeClass=Node, transportClass=Hand)

    @replicated
    def do(self, what: str) -> None:
        self.done.append(what)


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Wire:
    made = Wire()
    Hand.wire = made
    monkeypatch.setattr(library, "monotonicTime", lambda: made.now)
    monkeypatch.setattr(library, "pickle", pickle)
    return made


def turn(wire: Wire, *members: Stock, seconds: float) -> None:
    for _ in range(int(seconds / 0.02)):
        wire.now += 0.02
        for member in members:
            member.doTick(0.0)
            wire.members[member.selfNode.id].deliver()


def leads(member: Stock) -> bool:
    return bool(member._isLeader())


def elect(wire: Wire, wanted: Stock, *members: Stock) -> None:
    """By its deadline alone, as chance would have it."""
    for _ in range(20):
        for member in members:
            far = 0.0 if member is wanted else wire.now + 1e6
            member._SyncObj__raftElectionDeadline = far  # type: ignore[attr-defined]
        turn(wire, *members, seconds=0.5)
        if leads(wanted):
            return
    raise AssertionError("nobody was elected")


def test_the_librarys_own_change_of_members_loses_an_acknowledged_command(wire: Wire) -> None:
    """It means to allow one change at a time, but never notes that one is under way: a leader that is cut off adds two
    members at once, and has a majority of five with them, while the other two of three have one of their own."""
    a, b, c = Stock("a", "bc"), Stock("b", "ac"), Stock("c", "ab")
    elect(wire, a, a, b, c)
    a.do("before")
    turn(wire, a, b, c, seconds=1)
    assert a.done == b.done == c.done == ["before"]

    d, e = Stock("d", "abc"), Stock("e", "abcd")
    wire.parts = [{"a", "d", "e"}, {"b", "c"}]
    a.addNodeToCluster(Node("d"))
    a.addNodeToCluster(Node("e"))
    acknowledged: list[int] = []
    a.do("paid", callback=lambda _result, error: acknowledged.append(error))
    turn(wire, a, d, e, seconds=1)
    assert acknowledged == [FAIL_REASON.SUCCESS]
    assert a.done == ["before", "paid"]

    elect(wire, b, b, c)
    for n in range(8):
        b.do(f"other {n}")
    turn(wire, b, c, seconds=1)
    assert b.done == c.done == ["before", *(f"other {n}" for n in range(8))]

    wire.parts = []
    wire.members["b"].known |= {"d", "e"}
    turn(wire, a, b, c, seconds=3)
    assert leads(b)
    assert not leads(a)
    held = [entry[0] for entry in a._SyncObj__raftLog[:]]  # type: ignore[attr-defined]
    assert not any(b"paid" in entry for entry in held), (
        "the acknowledged command is gone from the log of its own leader"
    )
