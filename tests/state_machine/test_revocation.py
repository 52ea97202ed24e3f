"""Revoked certificates in the replicated state."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gosched.core.commands.cluster import SetClock
from gosched.core.commands.command import LEVEL_OF, Command
from gosched.core.commands.revocation import RevokeCertificate, UnrevokeCertificate
from gosched.core.events import Event
from gosched.core.features import FeatureLevel
from gosched.core.invariants.check_state import check
from gosched.core.outcome import Accepted, Code, Rejected
from gosched.core.records.revocation import Revocation
from gosched.core.state.cluster_state import ClusterState
from gosched.state_machine import apply
from gosched.state_machine import revocation as table
from gosched.state_machine.revocation import KEPT_AFTER_END_MS, revoke_certificate, unrevoke_certificate

ONE = Revocation(certificate="a1", holder="gosched:///client/ann", role="client", at_ms=1_000, ends_at_ms=5_000)


def revoke(state: ClusterState, revocation: Revocation) -> object:
    return revoke_certificate(state, RevokeCertificate(revocation=revocation), list[Event]())


def unrevoke(state: ClusterState, serial: str) -> object:
    return unrevoke_certificate(state, UnrevokeCertificate(certificate=serial), list[Event]())


def test_a_certificate_is_revoked_once_and_taken_again() -> None:
    state = ClusterState()
    assert revoke(state, ONE) == Accepted(subject=ONE.certificate)
    assert state.is_revoked("a1")
    assert not state.is_revoked("b2")
    assert revoke(state, replace(ONE, reason="again")) == Accepted(subject=ONE.certificate, unchanged=True)
    assert state.revocations == {ONE.certificate: ONE}
    assert check(state) == []
    assert unrevoke(state, ONE.certificate) == Accepted(subject=ONE.certificate)
    assert not state.revocations
    refused = unrevoke(state, ONE.certificate)
    assert isinstance(refused, Rejected)
    assert refused.code is Code.NOT_FOUND


def test_one_that_has_ended_is_kept_while_there_is_room_for_the_clock_may_be_set_back() -> None:
    state = ClusterState()
    revoke(state, ONE)
    state.set_clock(5_000 + KEPT_AFTER_END_MS)
    revoke(state, replace(ONE, certificate="b2", ends_at_ms=0))
    assert apply(state, Command(body=SetClock(to_ms=2_000)))[0] == Accepted(subject=str(5_000 + KEPT_AFTER_END_MS))
    assert state.is_revoked("a1")


@pytest.mark.parametrize(
    "wrong",
    [
        {"certificate": "A1"},
        {"certificate": "a" * 41},
        {"certificate": "0a"},
        {"certificate": ""},
        {"role": "king"},
        {"reason": "two\nlines"},
        {"reason": "x" * 2000},
        {"holder": "x" * 2000},
        {"ends_at_ms": -1},
    ],
    ids=str,
)
def test_what_breaks_a_rule_is_refused_and_changes_nothing(wrong: dict[str, object]) -> None:
    state = ClusterState()
    refused = revoke(state, replace(ONE, **wrong))  # type: ignore[arg-type]
    assert isinstance(refused, Rejected)
    assert refused.code is Code.INVALID
    assert not state.revocations


def test_their_number_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "MAX_REVOCATIONS", 2)
    state = ClusterState()
    revoke(state, ONE)
    revoke(state, replace(ONE, certificate="b2"))
    refused = revoke(state, replace(ONE, certificate="c3"))
    assert isinstance(refused, Rejected)
    assert refused.code is Code.EXHAUSTED
    state.set_clock(5_000 + KEPT_AFTER_END_MS - 1)
    assert isinstance(revoke(state, replace(ONE, certificate="c3")), Rejected)
    state.set_clock(5_000 + KEPT_AFTER_END_MS)  # both have ended, a day ago
    assert revoke(state, replace(ONE, certificate="c3", ends_at_ms=0)) == Accepted(subject="c3")
    assert list(state.revocations) == ["b2", "c3"], "one gave its place"
    revoke(state, replace(ONE, certificate="d4", ends_at_ms=0))
    assert isinstance(revoke(state, replace(ONE, certificate="e5")), Rejected), "one without an end never does"


def test_older_masters_get_no_such_command() -> None:
    assert LEVEL_OF[RevokeCertificate] is LEVEL_OF[UnrevokeCertificate] is FeatureLevel.BOUNDED
