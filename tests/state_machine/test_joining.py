"""Tokens to join with: made, used once, revoked, over; and what becomes of the nodes that joined."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gosched.core.commands.cluster import PassTime, SetClock
from gosched.core.commands.join import CreateJoinToken, RenewJoinedNode, RevokeJoinToken, UseJoinToken
from gosched.core.commands.nodes import RemoveNode
from gosched.core.commands.revocation import RevokeCertificate, UnrevokeCertificate
from gosched.core.events import NodeJoined
from gosched.core.invariants.check_state import check
from gosched.core.limits import MAX_JOIN_REPEAT_MS
from gosched.core.outcome import Code
from gosched.core.records.join import JoinToken
from gosched.core.records.revocation import Revocation
from gosched.core.rules.join import is_plain_host
from gosched.core.state.restore import restore
from gosched.state_machine import joining
from tests.state_machine.cluster import Cluster

DIGEST, KEY, OTHER = "a" * 64, "b" * 64, "c" * 64
FIRST, SECOND, THIRD = "a1", "b2", "c3"  # serial numbers
HOUR_MS = 3_600_000


@pytest.fixture
def c() -> Cluster:
    cluster = Cluster()
    cluster.accept(PassTime(), at_ms=1_000)
    return cluster


def token(**more: Any) -> JoinToken:
    known = {"id": "t1", "name": "rack-7", "digest": DIGEST, "created_at_ms": 1_000, "expires_at_ms": HOUR_MS}
    return JoinToken(**{**known, **more})


def use(**more: Any) -> UseJoinToken:
    known = {"id": "t1", "digest": DIGEST, "key": KEY, "node": "n9", "ends_at_ms": 9 * HOUR_MS, "certificate": FIRST}
    return UseJoinToken(**{**known, **more})


def renewal(certificate: str, shown: str, **more: Any) -> RenewJoinedNode:
    return RenewJoinedNode(**{"name": "n9", "certificate": certificate, "shown": shown, **more})


def test_a_token_is_used_by_one_key_for_one_name_and_a_repeat_of_that_changes_nothing(c: Cluster) -> None:
    c.accept(CreateJoinToken(token=token(labels=(("zone", "a"),))))
    assert c.accept(use(hosts=("10.0.0.9",))).subject == "n9"
    assert c.events == (NodeJoined(name="n9", token_id="t1"),)
    assert c.state.joined_nodes["n9"].labels == (("zone", "a"),)
    assert c.accept(use(hosts=("10.0.0.9",))).unchanged
    assert c.events == ()
    for wrong in (use(key=OTHER), use(node="n8"), use(digest=OTHER), use(id="t2")):
        c.reject(wrong, Code.NOT_FOUND)
    assert list(c.state.joined_nodes) == ["n9"]
    assert check(c.state) == []
    assert restore(c.state.freeze()).digest() == c.state.digest()


def test_a_token_that_has_ended_or_was_revoked_is_used_no_more(c: Cluster) -> None:
    c.accept(CreateJoinToken(token=token()))
    c.accept(PassTime(), at_ms=HOUR_MS)
    assert c.reject(use(), Code.NOT_FOUND) == "join token t1 has ended"
    c.accept(CreateJoinToken(token=token(id="t2", created_at_ms=HOUR_MS, expires_at_ms=2 * HOUR_MS)))
    c.accept(RevokeJoinToken(id="t2"))
    c.reject(use(id="t2"), Code.NOT_FOUND)
    c.reject(RevokeJoinToken(id="t2"), Code.NOT_FOUND)


@pytest.mark.parametrize("used", [{"used_key": KEY}, {"used_by": "n1"}, {"used_at_ms": 1}])
def test_a_token_that_says_that_it_was_used_is_not_taken(c: Cluster, used: dict[str, Any]) -> None:
    assert "cannot have been used already" in c.reject(CreateJoinToken(token=token(**used)), Code.INVALID)
    assert check(c.state) == []


def test_what_has_ended_by_a_clock_that_is_set_back_counts_again(c: Cluster, monkeypatch) -> None:
    """The clock was ahead for a while: a token that had ended by it is good again, and a certificate that another one
    took the place of is still shut out."""
    monkeypatch.setattr(joining, "MAX_JOIN_TOKENS", 3)
    monkeypatch.setattr(joining, "MAX_NODES", 1)
    for number in (1, 2):
        c.accept(CreateJoinToken(token=token(id=f"t{number}")))
    c.accept(use())
    c.accept(renewal(SECOND, FIRST, ends_at_ms=10 * HOUR_MS))
    c.accept(renewal(THIRD, SECOND, ends_at_ms=10 * HOUR_MS))
    c.accept(SetClock(to_ms=20 * HOUR_MS))
    late = {"created_at_ms": 20 * HOUR_MS, "expires_at_ms": 21 * HOUR_MS}
    c.accept(CreateJoinToken(token=token(id="t3", **late)))
    c.accept(SetClock(to_ms=2_000))
    c.reject(renewal("d4", FIRST, ends_at_ms=10 * HOUR_MS), Code.CONFLICT)
    assert joining.why_unusable(c.state, "t2", DIGEST, KEY, "n8", c.state.clock_ms) == ""
    c.reject(CreateJoinToken(token=token(id="t4")), Code.EXHAUSTED)
    c.accept(SetClock(to_ms=30 * HOUR_MS))
    c.accept(CreateJoinToken(token=token(id="t4", created_at_ms=30 * HOUR_MS, expires_at_ms=31 * HOUR_MS)))
    assert sorted(c.state.join_tokens) == ["t2", "t3", "t4"], "the one that ended first gave its place"
    c.accept(use(id="t4", node="n7", ends_at_ms=40 * HOUR_MS))
    assert list(c.state.joined_nodes) == ["n7"], "as did the node"


@pytest.mark.parametrize("node", ["n1", "host-1"], ids=["id", "name"])
def test_a_token_gives_no_name_away_that_a_node_has_unless_it_names_that(c: Cluster, node: str) -> None:
    c.node("n1")
    c.state.put_node(replace(c.state.nodes["n1"], name="host-1"))
    for pattern in ("", "*", "?*"):
        c.accept(CreateJoinToken(token=token(id=f"t{len(c.state.join_tokens)}", node=pattern)))
        last = [*c.state.join_tokens][-1]
        detail = c.reject(use(id=last, node=node), Code.ALREADY_EXISTS)
        assert detail.endswith(f"goschedctl node join-token create --node {node}")
        assert not c.state.join_tokens[last].used_key, "it was not used up"
    c.accept(CreateJoinToken(token=token(id="exact", node=node)))
    assert c.accept(use(id="exact", node=node)).subject == node


def test_a_name_that_is_about_to_register_is_given_to_nobody_else(c: Cluster) -> None:
    c.accept(CreateJoinToken(token=token()))
    c.accept(CreateJoinToken(token=token(id="t2")))
    c.accept(use())
    c.reject(use(id="t2", key=OTHER), Code.ALREADY_EXISTS)


def test_a_token_holds_for_the_names_that_it_is_bound_to(c: Cluster) -> None:
    c.accept(CreateJoinToken(token=token(node="gpu-*")))
    assert c.reject(use(node="cpu-1"), Code.CONFLICT) == "the token is for the node gpu-*, not for cpu-1"
    c.accept(use(node="gpu-1"))


def test_a_joined_node_that_was_removed_keeps_its_labels_until_its_certificate_ends(c: Cluster) -> None:
    c.accept(CreateJoinToken(token=token(labels=(("zone", "a"),))))
    c.accept(use())
    c.node("n9")
    c.die("n9")
    c.accept(RemoveNode(node_id="n9"))
    assert c.state.joined_nodes["n9"].removed
    assert c.state.joined_nodes["n9"].labels == (("zone", "a"),)
    c.reject(use(key=OTHER), Code.NOT_FOUND)
    c.accept(CreateJoinToken(token=token(id="t2")))
    c.accept(use(id="t2", key=OTHER))
    assert not c.state.joined_nodes["n9"].labels
    c.reject(use(), Code.ALREADY_EXISTS)  # the first one's repeat does not take it back
    c.accept(renewal(SECOND, FIRST, ends_at_ms=10 * HOUR_MS))
    for hour in range(1, 12):
        c.accept(PassTime(), at_ms=hour * HOUR_MS)
    c.accept(PassTime(), at_ms=11 * HOUR_MS + 100)
    c.accept(CreateJoinToken(token=token(id="t3", created_at_ms=12 * HOUR_MS, expires_at_ms=13 * HOUR_MS)))
    assert joining.joined_node(c.state, "n9") is None


def test_a_renewal_is_of_a_node_that_joined(c: Cluster) -> None:
    c.reject(renewal(SECOND, FIRST, ends_at_ms=HOUR_MS), Code.NOT_FOUND)
    c.accept(CreateJoinToken(token=token()))
    c.accept(use())
    c.accept(renewal(SECOND, FIRST, ends_at_ms=20 * HOUR_MS, hosts=("n9",)))
    assert (c.state.joined_nodes["n9"].ends_at_ms, c.state.joined_nodes["n9"].hosts) == (20 * HOUR_MS, ("n9",))


@pytest.mark.parametrize(
    "bad",
    [
        {"expires_at_ms": 1_000},
        {"expires_at_ms": 10**12},
        {"digest": "x"},
        {"name": "a b"},
        {"node": "a b"},
        {"node": "[a]"},
        {"labels": tuple([(f"k{i:02}", "") for i in range(33)])},
        {"hosts": ("*.example.com",)},
        {"hosts": ("m1.master.gosched.internal",)},
        {"hosts": tuple([f"h{i}" for i in range(9)])},
    ],
)
def test_a_token_that_breaks_a_rule_is_not_made(c: Cluster, bad: dict[str, Any]) -> None:
    c.reject(CreateJoinToken(token=token(**bad)), Code.INVALID)
    assert c.state.join_tokens == {}


def test_tokens_are_bounded(c: Cluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(joining, "MAX_JOIN_TOKENS", 2)
    for name in ("t1", "t2"):
        c.accept(CreateJoinToken(token=token(id=name)))
    c.reject(CreateJoinToken(token=token(id="t3")), Code.EXHAUSTED)


def test_a_clock_that_is_set_back_leaves_a_token_its_time(c: Cluster) -> None:
    c.accept(PassTime(), at_ms=100_000)
    c.accept(CreateJoinToken(token=token(created_at_ms=100_000, expires_at_ms=160_000)))
    c.accept(SetClock(to_ms=50_000))
    moved = c.state.join_tokens["t1"]
    assert moved.expires_at_ms - moved.created_at_ms == 60_000
    assert moved.created_at_ms <= 50_000


@pytest.mark.parametrize("host", ["10.0.0.1", "::1", "node-17", "node-17.example.com", "a_b.c"])
def test_hosts_that_a_certificate_may_name(host: str) -> None:
    assert is_plain_host(host)


@pytest.mark.parametrize(
    "host",
    ["", "*", "*.example.com", "a..b", ".a", "a.", "-a", "a b", "a\n", "x" * 254, "é", "gosched.internal", "1.2.3",
     "n.agent.gosched.internal", "N.MASTER.GOSCHED.INTERNAL", "fe80::1%eth0", "http://a", "a:1", "999.1.1.1"],
)  # fmt: skip
def test_hosts_that_no_certificate_names(host: str) -> None:
    assert not is_plain_host(host)


def test_only_the_newest_certificate_of_a_name_is_renewed_and_the_one_that_it_was_made_for(c: Cluster) -> None:
    c.accept(CreateJoinToken(token=token()))
    c.accept(use())
    c.accept(renewal(SECOND, FIRST, ends_at_ms=10 * HOUR_MS))
    c.accept(renewal(THIRD, FIRST, ends_at_ms=10 * HOUR_MS))  # an agent that was killed before it had the second
    said = c.reject(renewal(FIRST, SECOND, ends_at_ms=10 * HOUR_MS), Code.CONFLICT)
    assert said.startswith("node n9 has another certificate since: ")
    c.accept(renewal(SECOND, THIRD, ends_at_ms=10 * HOUR_MS))
    c.reject(renewal(THIRD, FIRST, ends_at_ms=10 * HOUR_MS), Code.CONFLICT)
    c.reject(renewal("none", SECOND, ends_at_ms=10 * HOUR_MS), Code.INVALID)
    c.accept(CreateJoinToken(token=token(id="t2", node="n9")))
    c.accept(use(id="t2", key=OTHER, certificate=FIRST))  # the name goes to another machine
    for old in (SECOND, THIRD):
        c.reject(renewal("d4", old, ends_at_ms=10 * HOUR_MS), Code.CONFLICT)
    assert check(c.state) == []
    assert restore(c.state.freeze()).digest() == c.state.digest()


def test_a_used_token_is_no_way_around_a_revocation_a_removal_or_the_time_to_repeat(c: Cluster) -> None:
    c.accept(CreateJoinToken(token=token(id="t1")))
    c.accept(use())
    c.accept(PassTime(), at_ms=c.state.clock_ms + MAX_JOIN_REPEAT_MS - 1_000)
    assert c.accept(use(certificate=SECOND)).unchanged, "the answer was lost"
    c.accept(RevokeCertificate(revocation=Revocation(certificate=SECOND, at_ms=1_000)))
    c.reject(use(certificate=THIRD), Code.NOT_FOUND)
    said = c.reject(renewal(THIRD, SECOND, ends_at_ms=10 * HOUR_MS), Code.CONFLICT)
    assert said.startswith("a certificate of node n9 is revoked: ")
    c.accept(UnrevokeCertificate(certificate=SECOND))
    c.node("n9")
    c.die("n9")
    c.accept(RemoveNode(node_id="n9"))
    c.reject(use(certificate=THIRD), Code.ALREADY_EXISTS)
    c.accept(CreateJoinToken(token=token(id="t2")))
    c.accept(use(id="t2", node="n8"))
    c.accept(PassTime(), at_ms=c.state.clock_ms + MAX_JOIN_REPEAT_MS + 1)
    c.reject(use(id="t2", node="n8", certificate=THIRD), Code.NOT_FOUND)


def test_a_token_is_worth_nothing_once_the_certificate_is_revoked_that_made_it(c: Cluster) -> None:
    c.accept(CreateJoinToken(token=token(certificate="d4")))
    c.accept(RevokeCertificate(revocation=Revocation(certificate="d4", at_ms=1_000)))
    assert c.reject(use(), Code.NOT_FOUND) == "join token t1 was made with certificate d4, which is revoked"


def test_what_a_name_had_before_is_shut_out_for_as_long_as_it_is_valid(c: Cluster) -> None:
    c.accept(CreateJoinToken(token=token()))
    c.accept(use(ends_at_ms=9 * HOUR_MS))
    c.accept(CreateJoinToken(token=token(id="t2", node="n9")))
    c.accept(use(id="t2", key=OTHER, certificate=SECOND, ends_at_ms=HOUR_MS))  # an authority that ends soon
    joined = c.state.joined_nodes["n9"]
    assert joined.ends_at_ms == 9 * HOUR_MS
    assert joining.why_shut_out(c.state, joined, FIRST)
    c.accept(SetClock(to_ms=9 * HOUR_MS))
    assert not joining.why_shut_out(c.state, c.state.joined_nodes["n9"], "by-hand")
