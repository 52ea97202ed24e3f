"""Checks bindings and tokens. Paths of findings begin with the binding's place in the list."""

from __future__ import annotations

import re
from collections.abc import Sequence

from gosched.core.access import GRANTS, SCOPED
from gosched.core.limits import MAX_ACCESS_BYTES, MAX_BINDINGS, MAX_DURATION_MS, MAX_NAMES_PER_BINDING
from gosched.core.records.access import AccessRole, Binding, Token
from gosched.core.rules.finding import Finding
from gosched.core.rules.values import check_id, check_name, check_order, check_vector
from gosched.core.state.record_bytes import content_bytes

_DIGEST = re.compile(r"[0-9a-f]{64}")


def check_bindings(bindings: Sequence[Binding]) -> Finding | None:
    """Return the first thing that is wrong with bindings that are set together, or None."""
    if len(bindings) > MAX_BINDINGS:
        problem = f"{len(bindings)} bindings; at most {MAX_BINDINGS} are allowed"
        return Finding(problem=problem, advice="bind groups rather than users")
    known: dict[str, None] = {}
    for place, binding in enumerate(bindings):
        found = _check_binding(binding, place)
        if found:
            return found
        if binding.name in known:
            return Finding(path=(place, "name"), problem=f"two bindings are named {binding.name}")
        known[binding.name] = None
    size = sum([content_bytes(binding) for binding in bindings])
    if size > MAX_ACCESS_BYTES:
        problem = f"would take {size} bytes; at most {MAX_ACCESS_BYTES} are allowed"
        return Finding(subject="all bindings", problem=problem, advice="bind groups rather than users")
    return None


def check_token(token: Token) -> Finding | None:
    """Return the first thing that is wrong with a token, or None."""
    subject = f"token {token.name}"
    lasts_ms = token.expires_at_ms - token.created_at_ms
    if not 0 < lasts_ms <= MAX_DURATION_MS:
        return Finding(subject=subject, problem="must last longer than nothing and at most 366 days")
    if not _DIGEST.fullmatch(token.digest):
        return Finding(subject=subject, problem="has no digest of its secret")
    return (
        check_name("token id", token.id)
        or check_name("token name", token.name)
        or _check_subjects(f"{subject}: user", (token.user,))
        or _check_names(f"{subject}: groups", token.groups)
        or _check_scope(subject, token)
    )


def _check_binding(binding: Binding, place: int) -> Finding | None:
    subject = f"binding {binding.name}"
    found = check_name("binding name", binding.name, place, "name")
    if found:
        return found
    if not binding.users and not binding.groups:
        return Finding(path=(place,), subject=subject, problem="names no user and no group", advice="name one at least")
    return (
        _check_names(f"{subject}: users", binding.users, place, "users")
        or _check_names(f"{subject}: groups", binding.groups, place, "groups")
        or _check_names(f"{subject}: accounts", binding.accounts, place, "accounts")
        or _check_scope(subject, binding, place)
        or _check_ceiling(subject, binding, place)
    )


def _check_scope(subject: str, by: Binding | Token, *path: str | int) -> Finding | None:
    if by.role not in GRANTS:
        roles = ", ".join([role.word for role in GRANTS])
        return Finding(path=(*path, "role"), subject=subject, problem="has no role", advice=f"give it one of {roles}")
    if (by.tenants or by.queues) and by.role not in SCOPED:
        problem = f"the role {by.role.word} is of the whole cluster"
        return Finding(path=(*path, "role"), subject=f"{subject}:", problem=problem, advice="leave out tenants, queues")
    if isinstance(by, Binding) and by.role is AccessRole.TENANT_ADMIN and not by.tenants:
        problem = "a tenant-admin is of a tenant"
        return Finding(path=(*path, "tenants"), subject=f"{subject}:", problem=problem, advice="name one at least")
    return _check_names(f"{subject}: tenants", by.tenants, *path, "tenants") or _check_names(
        f"{subject}: queues", by.queues, *path, "queues"
    )


def _check_ceiling(subject: str, binding: Binding, place: int) -> Finding | None:
    if binding.ceiling and binding.role is not AccessRole.TENANT_ADMIN:
        problem = f"a ceiling is for a tenant-admin; the role is {binding.role.word}"
        return Finding(path=(place, "ceiling"), subject=f"{subject}:", problem=problem)
    return check_vector(f"{subject}: ceiling", binding.ceiling, place, "ceiling")


def _check_names(subject: str, given: Sequence[str], *path: str | int) -> Finding | None:
    if len(given) > MAX_NAMES_PER_BINDING:
        problem = f"{len(given)} names; at most {MAX_NAMES_PER_BINDING} are allowed"
        return Finding(path=path, subject=subject, problem=problem)
    return _check_subjects(subject, given, *path) or check_order(subject, given, *path)


def _check_subjects(subject: str, given: Sequence[str], *path: str | int) -> Finding | None:
    for name in given:
        if not name:
            return Finding(path=path, subject=subject, problem="an empty name")
        found = check_id(subject, name, *path)
        if found:
            return found
    return None
