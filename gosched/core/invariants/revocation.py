"""Revoked certificates: in their places, bounded, and as the rules allow."""

from __future__ import annotations

from collections.abc import Iterator

from gosched.core.limits import MAX_REVOCATIONS
from gosched.core.rules.revocation import check_revocation
from gosched.core.state.cluster_state import ClusterState


def revocation_problems(state: ClusterState) -> Iterator[str]:
    if len(state.revocations) > MAX_REVOCATIONS:
        yield f"there are {len(state.revocations)} revocations"
    for key, record in state.revocations.items():
        if key != record.certificate:
            yield f"Revocation {key} is in the wrong place"
        if found := check_revocation(record):
            yield f"revocation {key} breaks a rule: {found}"
