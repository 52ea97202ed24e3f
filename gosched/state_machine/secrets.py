"""Secrets: set, sealed again, deleted; and whether the ones that a job names are there.

Invariant: only ciphertexts come here; what opens them is no part of the state.
"""

from __future__ import annotations

from gosched.core.commands.secrets import DeleteSecret, ResealSecret, SetSecret
from gosched.core.limits import (
    MAX_NAME_LENGTH,
    MAX_SECRET_BYTES_PER_TENANT,
    MAX_SECRETS,
    MAX_SECRETS_BYTES,
    MAX_SECRETS_PER_TENANT,
)
from gosched.core.outcome import Accepted, Code, Outcome, Rejected
from gosched.core.records.secret import Secret, secret_key
from gosched.core.replace import replace
from gosched.core.rules.secrets import check_secret
from gosched.core.rules.values import check_id
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.secret_use import secret_names
from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.record_bytes import content_bytes


def set_secret(state: ClusterState, command: SetSecret) -> Outcome:
    """Make a secret, or replace its value. The answer's subject is its version."""
    found = check_secret(command.tenant, command.name, command.sealed, command.key_id)
    found = found or check_id("user", command.user) or check_id("cluster id", command.cluster_id)
    if found:
        return Rejected(code=Code.INVALID, detail=str(found))
    known = state.secrets.get(secret_key(command.tenant, command.name))
    secret = Secret(
        tenant=command.tenant,
        name=command.name,
        sealed=command.sealed,
        key_id=command.key_id,
        cluster_id=command.cluster_id,
        version=1 if known is None else known.version + 1,
        changed_at_ms=state.clock_ms,
        changed_by=command.user,
    )
    refused = _bounds_refusal(state, secret, known)
    if refused is not None:
        return refused
    state.put_secret(secret)
    return Accepted(subject=str(secret.version))


def delete_secret(state: ClusterState, command: DeleteSecret) -> Outcome:
    key = secret_key(command.tenant, command.name)
    if key not in state.secrets:
        return Rejected(code=Code.NOT_FOUND, detail=f"there is no secret {key[: 2 * MAX_NAME_LENGTH]!a}")
    state.drop_secret(key)
    return Accepted(subject=key)


def reseal_secret(state: ClusterState, command: ResealSecret) -> Outcome:
    """Replace a ciphertext. One that was set or deleted meanwhile stays as it is."""
    known = state.secrets.get(secret_key(command.tenant, command.name))
    if known is None or known.version != command.version:
        return Accepted(unchanged=True)
    found = check_secret(command.tenant, command.name, command.sealed, command.key_id)
    if found := found or check_id("cluster id", command.cluster_id):
        return Rejected(code=Code.INVALID, detail=str(found))
    after = replace(known, sealed=command.sealed, key_id=command.key_id, cluster_id=command.cluster_id)
    state.put_secret(after)  # as large as before, but for the names of key and cluster: it is not refused
    return Accepted()


def missing_secret_problem(state: ClusterState, spec: JobSpec) -> str:
    """Return which secret a job names that its tenant does not have, in one line; empty: it has all."""
    for group in spec.groups:
        for name in secret_names(group.secrets, group.isolation.registry):
            key = secret_key(spec.tenant, name)
            if key not in state.secrets:
                return f"group {group.name}: there is no secret {key}: set it with goschedctl secret set {key}"
    return ""


def _bounds_refusal(state: ClusterState, secret: Secret, known: Secret | None) -> Rejected | None:
    own = [each for each in state.secrets.values() if each.tenant == secret.tenant and each.name != secret.name]
    growth = content_bytes(secret) - (content_bytes(known) if known is not None else 0)
    problem = ""
    if len(own) >= MAX_SECRETS_PER_TENANT:
        problem = f"tenant {secret.tenant} has {MAX_SECRETS_PER_TENANT} secrets, the limit"
    elif sum([content_bytes(each) for each in own]) + content_bytes(secret) > MAX_SECRET_BYTES_PER_TENANT:
        problem = f"the secrets of tenant {secret.tenant} would take more than {MAX_SECRET_BYTES_PER_TENANT} bytes"
    elif known is None and len(state.secrets) >= MAX_SECRETS:
        problem = f"there are {MAX_SECRETS} secrets, the limit"
    elif state.footprint.tables.get("secrets", 0) + growth > MAX_SECRETS_BYTES:
        problem = f"all secrets would take more than {MAX_SECRETS_BYTES} bytes"
    return Rejected(code=Code.EXHAUSTED, detail=f"{problem}: delete one first") if problem else None
