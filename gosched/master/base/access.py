"""Who may do what on this master: the bindings of its state and of its config, asked for the callers of its services.

A caller is judged by bindings if it came with a user's certificate, token or login. Masters and agents are judged by
the roles in their certificates alone (callers.py); where there is no TLS, nobody is judged.

Invariant: a call is judged by the state of the master that serves it; what has no line in methods.py is refused.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable, Iterable
from dataclasses import replace
from itertools import islice
from typing import Any, TypeVar

import grpc

from gosched.config.access_model import AccessSettings
from gosched.core.access import (
    CLUSTER,
    Identity,
    Limit,
    Object,
    Permission,
    Scopes,
    is_in_tenant,
    is_own_tenant,
    job_object,
    may,
    may_run_as,
    may_set_quota,
    may_somewhere,
    names,
    seen_scopes,
    sees_all,
)
from gosched.core.features import FeatureLevel
from gosched.core.limits import MAX_NAME_LENGTH
from gosched.core.records.access import Binding
from gosched.core.records.job import Job
from gosched.core.records.tenant import Quota
from gosched.core.request_ids import user_mark
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.secret_use import secret_names
from gosched.core.state.cluster_state import ClusterState
from gosched.core.state.job_names import meant, which_one
from gosched.identity.claims import VerifiedToken
from gosched.identity.oidc import OidcVerifier
from gosched.master.base.callers import Caller, denied, not_shown
from gosched.master.base.errors import ApiError, invalid, not_found
from gosched.master.base.methods import Needs, method_of
from gosched.master.base.proposals import repeats_only
from gosched.master.base.tokens import bearer, find, is_ours, shown
from gosched.replication.interface import Replication
from gosched.wire.roles import Role
from gosched.wire.shared_token import SharedToken

GUARD_S = 1.0  # between two looks at whether a stream may go on
MAX_NAMESAKES = 1_000  # jobs of one name and tenant that are looked at for one that a caller sees
MAX_TEXT = 2 * MAX_NAME_LENGTH + 1  # of what a job is called, in a refusal
MAX_REMEMBERED = 16_384  # users whose bindings are at hand

#: Those that are on one job, queue or tenant.
_ON_OBJECTS = (
    Permission.VIEW_JOB,
    Permission.READ_LOGS,
    Permission.EXEC,
    Permission.SUBMIT,
    Permission.CHANGE_JOB,
    Permission.SET_QUOTA,
    Permission.SET_QUEUE,
    Permission.SET_SECRET,
    Permission.USE_SECRET,
)

T = TypeVar("T")
Sees = Callable[[Object], bool]
Wording = Callable[[str], str]
#: Stands in lines for people where the name of a job was that the reader does not see.
HIDDEN = "a job of another tenant"
#: A job as `name_beside` calls it, or an id alone.
_NAMED = re.compile(
    r"(?:(?P<tenant>[\w.-]+)/)?[\w.-]+ \((?P<beside>j-[0-9a-z]+(?:\.[0-9]+)*)\)|(?P<id>\bj-[0-9a-z]+(?:\.[0-9]+)*)"
)


class Access:
    """The decision, for callers. `now_ms`: the state's clock, by which tokens end. `verifier`: of an issuer's tokens;
    None: there is none. `shared`: what callers show without TLS; None: nothing."""

    def __init__(
        self,
        replication: Replication,
        settings: AccessSettings,
        now_ms: Callable[[], int],
        verifier: OidcVerifier | None = None,
        shared: SharedToken | None = None,
    ) -> None:
        self.shared = shared
        self._replication = replication
        self._now_ms = now_ms
        self._verifier = verifier
        self.from_config = settings.binding()
        self.lists_others = settings.other_tenants == "listed"
        # The bindings of users, of one version of one state.
        self._of: tuple[ClusterState, int] | None = None
        self._mine: dict[tuple[str, tuple[str, ...]], tuple[Binding, ...]] = {}

    def identity(self, caller: Caller) -> Identity | None:
        """Return the user that is judged by bindings; None: this caller is not. Raises ApiError for a token or a login
        that has ended."""
        state = self._replication.state
        self.check_certificate(caller)
        if caller.role is not Role.CLIENT:
            return None
        if caller.is_guest:
            raise unauthenticated("neither a certificate nor a token")
        if state.feature_level < FeatureLevel.BOUNDED:
            self._check_level(caller)
            return None
        if caller.until_ms and caller.until_ms <= self._now_ms():
            raise unauthenticated("the login has ended")
        if not caller.token:
            return Identity(user=caller.name, groups=caller.groups)
        token = state.tokens.get(caller.token)
        if token is None or token.expires_at_ms <= self._now_ms():
            raise unauthenticated(f"token {caller.token} was revoked, or has ended")
        if state.is_revoked(token.certificate):
            raise unauthenticated(f"token {token.id} was made with certificate {token.certificate}, which is revoked")
        limit = Limit(role=token.role, tenants=token.tenants, queues=token.queues)
        return Identity(user=token.user, groups=token.groups, limit=limit)

    async def authenticated(self, caller: Caller, headers: Iterable[tuple[str, Any]], method: str = "") -> Caller:
        """Return the caller, who is another one where it sent a token. Raises ApiError for one that is not valid, and
        for a guest without one, unless guests may call the method."""
        self.check_certificate(caller)
        self._check_level(caller)
        if caller.role is None and caller.is_guest:
            if self.shared is None or not self.shared.is_of(f"Bearer {bearer(headers)}", of_browser=True):
                raise not_shown()
            return replace(caller, is_guest=False)
        secret = bearer(headers) if caller.role is Role.CLIENT else ""
        if not secret:
            if caller.is_guest and method_of(method).needs is not Needs.NOTHING:
                raise unauthenticated("neither a certificate nor a token")
            return caller
        if not is_ours(secret):
            return await self._logged_in(caller, secret)
        token = find(self._replication.state.tokens, secret, self._now_ms())
        if token is None:
            raise unauthenticated(f"no live token has this secret (token {shown(secret)})")
        return replace(caller, name=token.user, groups=token.groups, token=token.id, is_guest=False)

    def check_certificate(self, caller: Caller) -> None:
        """Raises ApiError for a caller whose certificate is revoked, or one that came through a master whose is."""
        for serial, whose in ((caller.certificate, caller.name), (caller.through, "a master that passed on its call")):
            if self._replication.state.is_revoked(serial):
                raise ApiError(
                    grpc.StatusCode.UNAUTHENTICATED,
                    "the certificate is not valid, or not any more: get another one",
                    audited=f"the certificate of {whose} is revoked (serial number {serial})",
                )

    def _check_level(self, caller: Caller) -> None:
        """Raises ApiError for an account of this machine while there are no bindings to judge it by."""
        if caller.is_local and self._replication.state.feature_level < FeatureLevel.BOUNDED:
            detail = "the socket is for users with roles: those count once the upgrade is finalized"
            raise ApiError(grpc.StatusCode.FAILED_PRECONDITION, detail)

    async def _logged_in(self, caller: Caller, token: str) -> Caller:
        """Return the user that an issuer's token names. Raises ApiError."""
        if self._verifier is None:
            raise unauthenticated("a token of an issuer, and no oidc is configured")
        if self._replication.state.feature_level < FeatureLevel.BOUNDED:
            raise unauthenticated("logins count once the upgrade is finalized: until then nobody has a role")
        found = await self._verifier.verify(token)
        if isinstance(found, VerifiedToken):
            return replace(
                caller, name=found.user, groups=tuple(sorted(found.groups)), until_ms=found.expires_ms, is_guest=False
            )
        if found.is_passing:
            raise ApiError(grpc.StatusCode.UNAVAILABLE, found.for_caller, audited=found.detail)
        raise unauthenticated(found.detail)

    def keep_answers_apart(self, caller: Caller, request: Any) -> None:
        """Bind the answer that is remembered of a change to its user: whoever guesses the ids of another one's request
        gets none of its answers, and spoils none."""
        if not getattr(request, "request_id", "") or not hasattr(request, "client_id") or self.identity(caller) is None:
            return
        mark = user_mark(caller.name)
        if not request.client_id.startswith(mark) and len(request.client_id) <= MAX_NAME_LENGTH:
            request.client_id = (mark + request.client_id)[:MAX_NAME_LENGTH]

    def bindings_of(self, identity: Identity) -> tuple[Binding, ...]:
        """Return the bindings that name a user or one of its groups."""
        state = self._replication.state
        version = (state, state.access_changes)
        if self._of != version:
            self._of, self._mine = version, {}
        key = (identity.user, identity.groups)
        mine = self._mine.get(key)
        if mine is None:
            if len(self._mine) >= MAX_REMEMBERED:
                self._mine.clear()
            everything = (self.from_config, *state.bindings.values())
            mine = self._mine[key] = tuple([one for one in everything if names(one, identity)])
        return mine

    def check_method(self, caller: Caller, method: str, request: Any = None) -> None:
        """Raises ApiError unless the caller may make this call, on some object at least. The repeat of a request that
        was answered before is let through for that answer, and for nothing else: the change itself may have taken the
        permission away."""
        repeats_only(None)
        needs = method_of(method).needs
        if needs is Needs.NOTHING:
            return
        identity = self.identity(caller)
        if identity is None or needs is Needs.USER:
            return
        if needs is Needs.MACHINE:
            raise denied(f"no rule lets users call {method.rpartition('/')[2]}")
        judge = may_somewhere if needs in _ON_OBJECTS else may
        if judge(self.bindings_of(identity), identity, needs):
            return
        refusal = self._refusal(identity, needs)
        if not self._was_answered(request):
            raise refusal
        repeats_only(refusal)

    def _was_answered(self, request: Any) -> bool:
        client, number = getattr(request, "client_id", ""), getattr(request, "request_id", "")
        if not number:
            return False
        numbers = (number, *[f"{number}/{place}" for place in range(len(getattr(request, "specs", ())))])  # of a batch
        return any(self._replication.state.answer_to(client, each) is not None for each in numbers)

    def may(self, caller: Caller, permission: Permission, on: Object = CLUSTER) -> bool:
        """Return whether the caller may do this. Raises ApiError for a token that has ended."""
        identity = self.identity(caller)
        return identity is None or may(self.bindings_of(identity), identity, permission, on)

    def check(self, caller: Caller, permission: Permission, on: Object = CLUSTER) -> None:
        """Raises ApiError unless the caller may do this."""
        if not self.may(caller, permission, on):
            identity = self.identity(caller)
            assert identity is not None, "it was judged"
            raise self._refusal(identity, permission, on)

    def check_submission(self, caller: Caller, spec: JobSpec) -> None:
        """Raises ApiError unless the caller may submit this job, give its tasks the secrets that it names, and run them
        as its accounts."""
        on = Object(tenant=spec.tenant, queue=spec.queue)
        self.check(caller, Permission.SUBMIT, on)
        identity = self.identity(caller)
        if identity is None:
            return
        if any(secret_names(group.secrets, group.isolation.registry) for group in spec.groups):
            self.check(caller, Permission.USE_SECRET, Object(tenant=spec.tenant))
        self._check_apart(caller, spec)
        for account in dict.fromkeys(group.isolation.user for group in spec.groups):
            if account and not may_run_as(self.bindings_of(identity), identity, on, account):
                raise denied(f"{identity.user} may not run tasks as the account {account[:MAX_NAME_LENGTH]!a}")

    def unseen(self, caller: Caller, spec: JobSpec) -> tuple[str, ...]:
        """Return which of the jobs that a job waits for its submitter does not see: they would tell it how they end."""
        state, sees = self._replication.state, self.sees(caller)
        if sees is None:
            return ()
        found = [(wanted.job, state.find_job(wanted.job, spec.tenant)) for wanted in spec.after]
        return tuple([name for name, job in found if job is not None and not sees(job_object(job))])

    def _check_apart(self, caller: Caller, spec: JobSpec) -> None:
        """Raises ApiError for a job that keeps away from jobs of a tenant that its submitter does not see: where it
        runs would tell where they do."""
        if (sees := self.sees(caller)) is None:
            return
        for rule in [rule for group in spec.groups for rule in group.anti_affinity]:
            tenant = rule.job.rpartition("/")[0]
            if tenant and tenant != spec.tenant and not sees(Object(tenant=tenant)):
                raise denied(f"{caller.name} may not keep away from jobs of tenant {tenant[:MAX_NAME_LENGTH]}")

    def lists_secrets(self, caller: Caller, tenant: str) -> bool:
        """Return whether the caller may know the names of a tenant's secrets."""
        on = Object(tenant=tenant)
        return self.may(caller, Permission.USE_SECRET, on) or self.may(caller, Permission.SET_SECRET, on)

    def check_lists_secrets(self, caller: Caller, tenant: str) -> None:
        """Raises ApiError unless the caller may know the names of a tenant's secrets."""
        if not self.lists_secrets(caller, tenant):
            self.check(caller, Permission.USE_SECRET, Object(tenant=tenant))

    def find_job(self, caller: Caller, permission: Permission, asked: str) -> Job:
        """Return the job that a caller means by an id, TENANT/NAME or a name. Raises ApiError where there is none that
        the caller sees, and where the caller may not do this with it."""
        job = self.seen_job(caller, asked)
        if job is None:
            problem, hidden = f"there is no job {asked[:MAX_TEXT]!a}", self._replication.state.find_job(asked)
            if hidden is None:
                raise not_found(problem)
            on = job_object(hidden)
            why = f"{caller.name} may not see job {hidden.id} of tenant {on.tenant}, queue {on.queue}"
            raise not_found(problem, audited=f"{why}, for {permission.value}")
        self.check(caller, permission, job_object(job))
        return job

    def seen_job(self, caller: Caller, asked: str) -> Job | None:
        """Return the job that a caller means, None: there is none that it sees. A name means a job of its own tenants,
        else one of any tenant; one that lives, else the newest. Raises ApiError for the name of several live jobs.

        Jobs that the caller does not see count for nothing: whatever they are called, the answer is the same."""
        there, sees = self._replication.state.jobs_named(asked), self.sees(caller)
        seen = there if sees is None else [job for job in [self._newest_seen(one, sees) for one in there] if job]
        if not seen and self.lists_others:
            seen = there
        if len(seen) > 1 and (identity := self.identity(caller)) is not None:
            mine = self.bindings_of(identity)
            seen = [job for job in seen if is_own_tenant(mine, identity, job.spec.tenant)] or seen
        found = meant(seen)
        if len(found) > 1:
            raise invalid(which_one(asked, found))
        return found[0] if found else None

    def _newest_seen(self, job: Job, sees: Sees) -> Job | None:
        """Return the job, or where it is not seen the newest that has its name in its tenant and is."""
        jobs, names = self._replication.state.jobs, self._replication.state.names
        others = islice(names.namesakes(job.spec.tenant, job.spec.name), MAX_NAMESAKES)
        return next((one for one in [job, *(jobs[other] for other in others)] if sees(job_object(one))), None)

    def check_quota(self, caller: Caller, quota: Quota) -> None:
        """Raises ApiError unless the caller may give this quota to its tenant."""
        identity = self.identity(caller)
        if identity is not None and not may_set_quota(self.bindings_of(identity), identity, quota):
            on = Object(tenant=quota.tenant)
            why = ": the ceiling of its binding bounds it" if self.may(caller, Permission.SET_QUOTA, on) else ""
            raise denied(f"{identity.user} may not set the quota of tenant {quota.tenant}{why}")

    def sees(self, caller: Caller) -> Sees | None:
        """Return whether the caller sees the jobs of this tenant, queue and owner; None: it sees all of them."""
        identity = self.identity(caller)
        if identity is None:
            return None
        bindings = self.bindings_of(identity)
        if sees_all(bindings, identity):
            return None
        return lambda on: may(self.bindings_of(identity), identity, Permission.VIEW_JOB, on)

    def viewer(self, caller: Caller) -> Hashable:
        """Return a key that callers share who see the same."""
        return None if self.sees(caller) is None else (caller.name, caller.groups, caller.token)

    def lists(self, caller: Caller) -> Sees | None:
        """Return the same for listings, which may show jobs of other tenants without what is in them."""
        return None if self.lists_others else self.sees(caller)

    def seen_scopes(self, caller: Caller) -> Scopes:
        """Return what jobs the caller sees, for queries of the history."""
        identity = self.identity(caller)
        if identity is None or self.sees(caller) is None:
            return None
        return seen_scopes(self.bindings_of(identity), identity)

    def listed_scopes(self, caller: Caller) -> Scopes:
        """Return the same for listings."""
        return None if self.lists_others else self.seen_scopes(caller)

    def wording(self, caller: Caller) -> Wording:
        """Return what puts HIDDEN in the place of names and ids of jobs that the caller does not see, in a line for
        people. It looks for ids alone, which nobody guesses: of a word that happens to be the name of a hidden job the
        caller could tell that there is such a job."""
        lists, state = self.lists(caller), self._replication.state
        if lists is None:
            return str

        def hide(found: re.Match[str]) -> str:
            tenant, job = found["tenant"], state.jobs.get(found["beside"] or found["id"])
            if job is not None:
                return found[0] if lists(job_object(job)) else HIDDEN
            return found[0] if not tenant or lists(Object(tenant=tenant)) else HIDDEN

        return lambda text: _NAMED.sub(hide, text)

    def is_in(self, caller: Caller, tenant: str) -> bool:
        """Return whether the caller has a role in a tenant."""
        identity = self.identity(caller)
        return identity is None or is_in_tenant(self.bindings_of(identity), identity, tenant)

    async def guarded(self, caller: Caller, check: Callable[[], object], stream: AsyncIterator[T]) -> AsyncIterator[T]:
        """Yield what a stream yields, as long as `check` raises no ApiError: it is asked every GUARD_S, so a stream
        ends when its caller loses what it needs, also while nothing comes."""
        if self.identity(caller) is None:
            async for item in stream:
                yield item
            return
        async for item in while_true(check, stream):
            yield item

    async def while_valid(self, caller: Caller, stream: AsyncIterator[T]) -> AsyncIterator[T]:
        """Yield what a stream yields, as long as the certificate that it was opened with is not revoked: whoever serves
        it, and whatever its caller may."""
        if not caller.certificate and not caller.through:
            async for item in stream:
                yield item
            return
        async for item in while_true(lambda: self.check_certificate(caller), stream):
            yield item

    def _refusal(self, identity: Identity, permission: Permission, on: Object = CLUSTER) -> ApiError:
        where = f" in tenant {on.tenant}, queue {on.queue}" if on.tenant else ""
        return denied(
            f"{identity.user} may not {permission.value}{where}; `goschedctl access can-i` shows what it may, an"
            " administrator may bind it to a role"
        )


def unauthenticated(why: str) -> ApiError:
    """Return the one answer to whatever is wrong with a token; `why` is for the audit log."""
    return ApiError(
        grpc.StatusCode.UNAUTHENTICATED,
        "the token is not valid, or not any more: make another one, or log in again",
        audited=why,
    )


async def while_true(check: Callable[[], object], stream: AsyncIterator[T]) -> AsyncIterator[T]:
    """Yield what a stream yields until `check` raises, which is asked every GUARD_S."""
    coming: asyncio.Future[T] | None = None
    try:
        while True:
            coming = coming or asyncio.ensure_future(anext(stream))
            await asyncio.wait([coming], timeout=GUARD_S)
            check()
            if not coming.done():
                continue
            try:
                item = coming.result()
            except StopAsyncIteration:
                return
            coming = None
            yield item
    finally:
        if coming is not None:
            coming.cancel()
            await asyncio.wait([coming])
        if isinstance(stream, AsyncGenerator):
            await stream.aclose()
