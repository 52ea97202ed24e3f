"""Secrets: in their places, and as the rules allow."""

from __future__ import annotations

from collections.abc import Iterator

from gosched.core.limits import MAX_SECRETS
from gosched.core.rules.secrets import check_secret
from gosched.core.state.cluster_state import ClusterState


def secret_problems(state: ClusterState) -> Iterator[str]:
    if len(state.secrets) > MAX_SECRETS:
        yield f"there are {len(state.secrets)} secrets"
    for key, secret in state.secrets.items():
        if key != secret.key:
            yield f"secret {secret.key} is in the wrong place, {key}"
        if secret.version < 1:
            yield f"secret {key} has version {secret.version}"
        if found := check_secret(secret.tenant, secret.name, secret.sealed, secret.key_id):
            yield f"secret {key} breaks a rule: {found}"
