"""The callers of a master, and what each may call.

With TLS a caller is what its certificate says; a call that another master passes on is that of the caller it names.
Without TLS there are no roles, and a caller is its address, which has to be a private one. Who calls through the
master's Unix socket is its account, with TLS or without.

Invariant: only a master's word counts for another caller.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import grpc

from gosched.core.limits import MAX_NAME_LENGTH
from gosched.core.records.access import LOCAL
from gosched.master.base.errors import ApiError, busy
from gosched.master.base.local_accounts import LocalUser
from gosched.master.base.methods import method_of
from gosched.wire.certificates import names_of, names_of_call
from gosched.wire.plain_text import host_of, refusal
from gosched.wire.role_rules import BUILT_IN, CertificateNames, RoleReader
from gosched.wire.roles import SCHEME, BadCertificate, CertificateHolder, Role, identity_of
from gosched.wire.serials import serial_of, serial_of_call
from gosched.wire.shared_token import SharedToken

FORWARDED = "gosched-forwarded"  # the caller of a call that was passed on; `1` from masters of earlier releases
IDENTITY = "gosched-identity"  # what else is known of that caller, as JSON
UNNAMED = "1"
FORWARDED_ADDRESS = "gosched-forwarded-address"  # where the caller of a call that was passed on called from
OF_THIS_MACHINE = "unix"  # the address of who called through the socket

_OF_SOCKET = "unix"  # begins what gRPC calls the other end of a Unix socket
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    #: None: there is no TLS, and so there are no roles.
    role: Role | None
    #: By which its calls are counted: a name in a certificate, or an address.
    name: str
    #: Of its certificate; empty: any.
    cluster: str = ""
    #: The groups of a user, as its certificate or its login names them.
    groups: tuple[str, ...] = ()
    #: Id of the token that it came with; empty: it came with none.
    token: str = ""
    #: When its login ends, in ms since 1970; 0: with its certificate or its token.
    until_ms: int = 0
    #: It showed no certificate: it is nobody until its token says who it is. Without TLS: until it shows the cluster's.
    is_guest: bool = False
    #: Serial number of the certificate that it showed; empty: it showed none.
    certificate: str = field(default="", compare=False)
    #: The same of the master that passed its call on.
    through: str = field(default="", compare=False)
    #: Where it called from; no rule is made from it. Empty: not known, or from this master itself.
    address: str = field(default="", compare=False)

    @property
    def is_local(self) -> bool:
        """Return whether it called through the socket of a master, as an account of that machine."""
        return self.role is Role.CLIENT and self.name.startswith(LOCAL) and not self.token

    @property
    def header(self) -> tuple[tuple[str, str], ...]:
        """Return the metadata that name the caller to the master that its call is passed on to."""
        caller = (
            self.name
            if self.role is None
            else CertificateHolder(cluster=self.cluster, role=self.role, name=self.name).uri()
        )
        more = {
            "groups": self.groups,
            "token": self.token,
            "until_ms": self.until_ms,
            "certificate": self.certificate,
            "guest": self.is_guest,
        }
        told = self.role in (Role.CLIENT, Role.AGENT) and any(more.values())
        return (
            (FORWARDED, caller),
            *([(FORWARDED_ADDRESS, self.address)] if self.address else []),
            *([(IDENTITY, json.dumps(more))] if told else []),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedCall:
    """What a service is told of a call, whether it came by gRPC or by HTTP. Stands for gRPC's context."""

    caller: Caller
    #: As gRPC's: pairs of lower-case names and values.
    metadata: tuple[tuple[str, str], ...] = ()

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return self.metadata


class Shares:
    """Places of one kind that callers take at the same time. One may hold as many as it leaves free, so whatever one
    caller does, another that holds few finds a place. `what`: plural, for the refusal."""

    def __init__(self, most: int, what: str) -> None:
        self._most = most
        self._what = what
        self._held = Counter[str]()

    @contextmanager
    def place(self, caller: str) -> Iterator[None]:
        """Hold a place for the time of the block. Raises ApiError."""
        free = self._most - self._held.total()
        if free <= 0:
            raise busy(f"{self._most} {self._what} on this master already: try again later")
        if self._held[caller] >= free:
            raise busy(
                f"{self._held[caller]} {self._what} of {caller or 'callers without a name'}, {free} may be opened, and"
                " a caller holds as many as it leaves: end some first"
            )
        self._held[caller] += 1
        try:
            yield
        finally:
            self._held[caller] -= 1
            self._held += Counter()  # without zeros


#: What a master asks for itself.
ITSELF = Caller(role=None, name=UNNAMED)


class Callers:
    """Says who calls. `shared`: what callers show without TLS; None: nothing. `local`: whose connection it is by what
    gRPC calls its other end, where it came through this master's socket. `reserved`: with what no user and no group of
    a certificate may begin."""

    def __init__(
        self,
        local: Callable[[str], LocalUser | None] = lambda peer: None,
        reserved: tuple[str, ...] = (LOCAL,),
        roles: RoleReader = BUILT_IN,
        shared: SharedToken | None = None,
    ) -> None:
        self._local = local
        self._shared = shared
        self._roles = roles
        self._reserved = reserved

    def of_call(self, context: Any) -> Caller:
        """Return the caller of a gRPC call. Raises ApiError for a certificate that gives no role, and without TLS for a
        public address."""
        peer = context.peer()
        if peer.startswith(_OF_SOCKET):
            return self._of_socket(peer)
        certificate = context.auth_context()
        metadata = {
            key: str(value) for key, value in context.invocation_metadata() or () if key in (FORWARDED, IDENTITY)
        }
        named, address = metadata.get(FORWARDED, ""), host_of(peer)
        if certificate.get("transport_security_type") != [b"ssl"]:
            _check_private(address)
            if self._shared is not None and not self._shared.is_shown(context.invocation_metadata() or ()):
                raise not_shown()
            if named.startswith(SCHEME):  # of another master's socket: it is judged
                address = _forwarded_address(context) or address
                return _passed_on(_read(partial(identity_of, [named])), metadata.get(IDENTITY, ""), address)
            return Caller(role=None, name=named if named not in ("", UNNAMED) else address, address=address)
        if not certificate.get("x509_pem_cert"):
            return Caller(role=Role.CLIENT, name=address, is_guest=True, address=address)
        names = names_of_call(certificate)
        direct = _read(partial(self._roles.holder, names))
        serial = serial_of_call(certificate)
        if serial and direct.role is Role.MASTER and named not in ("", UNNAMED):
            address = _forwarded_address(context) or address
            passed_on = _passed_on(_read(partial(identity_of, [named])), metadata.get(IDENTITY, ""), address)
            return replace(passed_on, through=serial)
        return self._certified(direct, names, serial, address)

    def of_request(self, transport: Any) -> Caller:
        """Return the caller of an HTTP request. Raises ApiError."""
        certificate = transport.get_extra_info("peercert") if transport else None
        address = transport.get_extra_info("peername") if transport else None
        host = str(address[0]) if address else "?"
        if not certificate and transport is not None and transport.get_extra_info("ssl_object") is not None:
            return Caller(role=Role.CLIENT, name=host, is_guest=True, address=host)
        if not certificate:
            _check_private(host)
            return Caller(role=None, name=host, is_guest=self._shared is not None, address=host)
        names = names_of(certificate)
        der = transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        return self._certified(_read(partial(self._roles.holder, names)), names, serial_of(der), host)

    def _of_socket(self, peer: str) -> Caller:
        """Return the account that called through this master's socket. Raises ApiError for any other connection of
        that kind."""
        if (found := self._local(peer)) is None:
            raise denied("this connection did not come through the socket of this master")
        return Caller(role=Role.CLIENT, name=found.user, groups=found.groups, address=OF_THIS_MACHINE)

    def _certified(self, holder: CertificateHolder, names: CertificateNames, serial: str, address: str) -> Caller:
        """Return the holder of a certificate. Raises ApiError for a name of another kind of user, and where it cannot
        be seen whether the certificate is revoked."""
        if not serial:
            raise denied("the certificate cannot be read")
        if holder.role is not Role.CLIENT:
            name = holder.name or address
            return Caller(role=holder.role, name=name, cluster=holder.cluster, certificate=serial, address=address)
        name = holder.name or _read(partial(self._roles.user_name, names))
        groups = self._roles.groups(names)
        for one in (name, *groups):
            if one.startswith(self._reserved):
                raise denied(f"the certificate names {one[:MAX_NAME_LENGTH]!a}, which is no name of certificates")
        return Caller(
            role=holder.role,
            name=name or address,
            cluster=holder.cluster,
            groups=groups,
            certificate=serial,
            address=address,
        )


def check_allowed(caller: Caller, method: str, cluster_id: str) -> None:
    """Raises ApiError unless a caller of this role may call this method of this cluster."""
    if caller.role is None:
        return
    if not CertificateHolder(cluster=caller.cluster).is_of(cluster_id):
        raise denied(f"the certificate is of cluster {caller.cluster}, and this is cluster {cluster_id}")
    if caller.role is not Role.MASTER and caller.role not in method_of(method).roles:
        raise denied(
            f"a certificate of role {caller.role.value} may not call {method.rpartition('/')[2]}:"
            f" it needs {_needed(method)}"
        )


def not_shown() -> ApiError:
    """Return what a caller hears that does not show the token of a cluster without TLS."""
    detail = (
        "this cluster is another user's, or the token is missing: GOSCHED_TOKEN is in the line that "
        "`goschedctl local up` printed"
    )
    return ApiError(grpc.StatusCode.UNAUTHENTICATED, detail)


def denied(detail: str) -> ApiError:
    return ApiError(grpc.StatusCode.PERMISSION_DENIED, detail)


def _passed_on(holder: CertificateHolder, more: str, address: str) -> Caller:
    """Return the caller that another master names. Raises ApiError."""
    try:
        told = json.loads(more) if more else {}
        groups, token, until_ms = told.get("groups", ()), told.get("token", ""), told.get("until_ms", 0)
        return Caller(
            role=holder.role,
            name=holder.name,
            cluster=holder.cluster,
            groups=tuple([str(group) for group in groups]),
            token=str(token),
            until_ms=int(until_ms),
            certificate=str(told.get("certificate", "")),
            is_guest=bool(told.get("guest", False)),
            address=address,
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise denied(f"{IDENTITY} of a call that was passed on cannot be read: {error}") from None


def _needed(method: str) -> str:
    roles = sorted(role.value for role in method_of(method).roles) or [Role.MASTER.value]
    return f"gosched://CLUSTER/{' or '.join(roles)}/NAME among its alternative names"


def _read(certificate: Callable[[], T]) -> T:
    try:
        return certificate()
    except BadCertificate as error:
        raise denied(str(error)) from None


def _forwarded_address(context: Any) -> str:
    """Return where a call came from that a master passed on; to be asked of masters' calls alone."""
    return next((str(value) for key, value in context.invocation_metadata() or () if key == FORWARDED_ADDRESS), "")


def _check_private(host: str) -> None:
    if problem := refusal(host):
        raise denied(problem)
