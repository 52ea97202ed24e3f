"""The one decision on who may do what: a pure function of identity, permission and object.

A role grants permissions, each with a reach: on all that lies in the binding's scope (its tenants and queues), or only
on what the identity itself submitted. An identity has a permission where one of its bindings grants it. A token's own
role and scope are asked as if they were a binding, too: it grants nothing that either of the two does not.

Invariant: what no table names is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import Enum

from gosched.core.records.access import ANY_USER, LOCAL, OWN_ACCOUNT, AccessRole, Binding
from gosched.core.records.job import Job
from gosched.core.records.tenant import Quota
from gosched.core.sharing import lineage


class Permission(Enum):
    """What is asked for; the values are the words of `access can-i`."""

    #: What belongs to no tenant: status, queues, quotas, nodes, members.
    VIEW = "view"
    VIEW_JOB = "view-job"
    READ_LOGS = "read-logs"
    EXEC = "exec"
    SUBMIT = "submit"
    #: Cancel, hold, release, suspend, resume, requeue.
    CHANGE_JOB = "change-job"
    SET_QUOTA = "set-quota"
    #: Secrets of a tenant: set and delete them.
    SET_SECRET = "set-secret"
    #: Give them to tasks, and list their names.
    USE_SECRET = "use-secret"
    SET_QUEUE = "set-queue"
    #: Nodes and reservations.
    OPERATE = "operate"
    #: Masters, backups, the clock, logs, upgrades.
    ADMINISTER = "administer"
    #: Bindings, and the tokens of others.
    GRANT = "grant"


class Reach(Enum):
    """On what a role grants a permission."""

    OWN = "own"
    SCOPE = "scope"


@dataclass(frozen=True, slots=True, kw_only=True)
class Object:
    """What a permission is on. A job has all three; what belongs to no tenant has none."""

    tenant: str = ""
    #: A queue's path.
    queue: str = ""
    #: The authenticated submitter of a job; empty: nobody is known to have submitted it.
    owner: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Limit:
    """The most that a token grants."""

    role: AccessRole
    #: Empty: all of its user's.
    tenants: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Jobs that a binding or a token reaches: of one of the tenants, in one of the queues or below it. What is empty
    does not narrow it."""

    tenants: tuple[str, ...] = ()
    queues: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """An authenticated user."""

    user: str
    groups: tuple[str, ...] = ()
    #: None: it did not come with a token of ours.
    limit: Limit | None = None


CLUSTER = Object()
#: Which jobs somebody sees: those that all scopes of one of the parts reach; None: all.
Scopes = tuple[tuple[Scope, ...], ...] | None

_ON_JOBS = (Permission.VIEW_JOB, Permission.READ_LOGS, Permission.EXEC, Permission.SUBMIT, Permission.CHANGE_JOB)
_OF_SECRETS = (Permission.SET_SECRET, Permission.USE_SECRET)
_OF_TENANTS = (*_ON_JOBS, Permission.SET_QUOTA, *_OF_SECRETS)
_OF_QUEUES = (*_ON_JOBS, Permission.SET_QUEUE)

GRANTS: Mapping[AccessRole, Mapping[Permission, Reach]] = {
    AccessRole.VIEWER: {
        Permission.VIEW: Reach.SCOPE,
        Permission.VIEW_JOB: Reach.SCOPE,
        Permission.READ_LOGS: Reach.SCOPE,
    },
    AccessRole.SUBMITTER: {
        Permission.VIEW: Reach.SCOPE,
        Permission.VIEW_JOB: Reach.SCOPE,
        Permission.SUBMIT: Reach.SCOPE,
        Permission.USE_SECRET: Reach.SCOPE,
        Permission.READ_LOGS: Reach.OWN,
        Permission.EXEC: Reach.OWN,
        Permission.CHANGE_JOB: Reach.OWN,
    },
    AccessRole.TENANT_ADMIN: {
        Permission.VIEW: Reach.SCOPE,
        Permission.SET_QUEUE: Reach.SCOPE,
        Permission.SET_QUOTA: Reach.SCOPE,
        **dict.fromkeys(_OF_SECRETS, Reach.SCOPE),
        **dict.fromkeys(_ON_JOBS, Reach.SCOPE),
    },
    AccessRole.OPERATOR: {
        Permission.VIEW: Reach.SCOPE,
        Permission.VIEW_JOB: Reach.SCOPE,
        Permission.OPERATE: Reach.SCOPE,
    },
    AccessRole.ADMIN: dict.fromkeys(Permission, Reach.SCOPE),
}
#: Roles that may be bound within tenants and queues.
SCOPED = (AccessRole.VIEWER, AccessRole.SUBMITTER, AccessRole.TENANT_ADMIN)


def job_object(job: Job) -> Object:
    """Return a job as the object of a permission."""
    return Object(tenant=job.spec.tenant, queue=job.spec.queue, owner=job.user if job.authenticated else "")


def may(bindings: Iterable[Binding], identity: Identity, permission: Permission, on: Object = CLUSTER) -> bool:
    """Return whether the identity may do this."""
    return granting(bindings, identity, permission, on) is not None


def granting(
    bindings: Iterable[Binding], identity: Identity, permission: Permission, on: Object = CLUSTER
) -> Binding | None:
    """Return a binding by which the identity may do this; None: it may not."""
    limit = identity.limit
    if limit is not None and not _grants(limit, permission, on, identity):
        return None
    found = (one for one in bindings if names(one, identity) and _grants(one, permission, on, identity))
    return next(found, None)


def may_somewhere(bindings: Iterable[Binding], identity: Identity, permission: Permission) -> bool:
    """Return whether there may be an object that the identity may do this on."""
    limit = identity.limit
    if limit is not None and permission not in GRANTS.get(limit.role, {}):
        return False
    return any(names(one, identity) and permission in GRANTS.get(one.role, {}) for one in bindings)


def sees_all(bindings: Iterable[Binding], identity: Identity) -> bool:
    """Return whether the identity sees the jobs of all tenants and queues."""
    limit = identity.limit
    if limit is not None and not _is_open(limit):
        return False
    return any(names(one, identity) and _is_open(one) for one in bindings)


def seen_scopes(bindings: Iterable[Binding], identity: Identity) -> Scopes:
    """Return what jobs the identity sees, as `may` decides it."""
    limit = identity.limit
    if limit is not None and not _views_jobs(limit):
        return ()
    narrowed = (_scope(limit),) if limit is not None else ()
    own = [_scope(one) for one in bindings if names(one, identity) and _views_jobs(one)]
    return tuple([(scope, *narrowed) for scope in dict.fromkeys(own)])


def is_own_tenant(bindings: Iterable[Binding], identity: Identity, tenant: str) -> bool:
    """Return whether the identity works in this tenant: a binding that names it lets it submit there."""
    limit = identity.limit
    if limit is not None and limit.tenants and tenant not in limit.tenants:
        return False
    return any(
        names(one, identity) and tenant in one.tenants and Permission.SUBMIT in GRANTS.get(one.role, {})
        for one in bindings
    )


def is_in_tenant(bindings: Iterable[Binding], identity: Identity, tenant: str) -> bool:
    """Return whether the identity has a role in this tenant, in some queue at least."""
    limit = identity.limit
    if limit is not None and limit.tenants and tenant not in limit.tenants:
        return False
    return any(names(one, identity) and (not one.tenants or tenant in one.tenants) for one in bindings)


def may_run_as(bindings: Iterable[Binding], identity: Identity, on: Object, account: str) -> bool:
    """Return whether tasks of a job that the identity submits may run as this system account."""
    return any(
        names(one, identity)
        and _grants(one, Permission.SUBMIT, on, identity)
        and (
            (one.role is AccessRole.ADMIN and _is_admins(identity))
            or account in one.accounts
            or (OWN_ACCOUNT in one.accounts and account == account_of(identity.user))
        )
        for one in bindings
    )


def account_of(user: str) -> str:
    """Return the system account with a user's own name; empty: an account of a master's machine that has no name."""
    account = user.removeprefix(LOCAL)
    return "" if account != user and account.startswith("uid-") else account


def may_set_quota(bindings: Iterable[Binding], identity: Identity, quota: Quota) -> bool:
    """Return whether the identity may give a tenant this quota: one within a tenant, within the binding's ceiling."""
    on = Object(tenant=quota.tenant)
    limit = identity.limit
    if limit is not None and not _grants(limit, Permission.SET_QUOTA, on, identity):
        return False
    return any(
        names(one, identity)
        and _grants(one, Permission.SET_QUOTA, on, identity)
        and ((one.role is AccessRole.ADMIN and _is_admins(identity)) or _is_below(quota, one))
        for one in bindings
    )


def names(binding: Binding, identity: Identity) -> bool:
    """Return whether a binding is the identity's."""
    return (
        identity.user in binding.users
        or ANY_USER in binding.users
        or any(group in binding.groups for group in identity.groups)
    )


def _grants(by: Binding | Limit, permission: Permission, on: Object, identity: Identity) -> bool:
    if permission is Permission.SET_QUEUE and by.role is AccessRole.TENANT_ADMIN and not by.queues:
        return False  # queues have no tenant: those that it names are its own, and no others
    if permission in _OF_SECRETS and by.queues and not by.tenants:
        return False  # who may submit in a queue for whatever tenant has not the secrets of all
    reach = GRANTS.get(by.role, {}).get(permission)
    if reach is None or (reach is Reach.OWN and on.owner != identity.user):
        return False
    if permission in _OF_TENANTS and by.tenants and on.tenant not in by.tenants:
        return False
    return not (permission in _OF_QUEUES and by.queues and not any(path in by.queues for path in lineage(on.queue)))


def _is_admins(identity: Identity) -> bool:
    """Return whether what an administrator may without being named is not narrowed by a token."""
    return identity.limit is None or identity.limit.role is AccessRole.ADMIN


def _is_open(by: Binding | Limit) -> bool:
    return _views_jobs(by) and not by.tenants and not by.queues


def _views_jobs(by: Binding | Limit) -> bool:
    """Return whether it lets its user see all jobs in its scope; no role sees its user's own jobs alone."""
    return GRANTS.get(by.role, {}).get(Permission.VIEW_JOB) is Reach.SCOPE


def _scope(by: Binding | Limit) -> Scope:
    return Scope(tenants=by.tenants, queues=by.queues)


def _is_below(quota: Quota, binding: Binding) -> bool:
    """Return whether the quota limits each resource of the ceiling to no more than that."""
    limits = dict(quota.limit)
    return bool(binding.ceiling) and all(limits.get(name, most + 1) <= most for name, most in binding.ceiling)
