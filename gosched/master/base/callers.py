"""The callers of a master, and what each may call.

With TLS a caller is what its certificate says; a call that another master passes on is that of the caller it names.
Without TLS there are no roles, and a caller is its address, which has to be a private one.

Invariant: only a master's word counts for another caller.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import grpc

from gosched.master.base.errors import ApiError
from gosched.wire.certificates import caller_identity, holder_of, organizations
from gosched.wire.plain_text import host_of, refusal
from gosched.wire.roles import BadCertificate, CertificateHolder, Role, identity_of

FORWARDED = "gosched-forwarded"  # the caller of a call that was passed on; `1` from masters of earlier releases
IDENTITY = "gosched-identity"  # what else is known of that caller, as JSON
UNNAMED = "1"
FORWARDED_ADDRESS = "gosched-forwarded-address"  # where the caller of a call that was passed on called from
HTTP_METHOD = "/gosched.v1.SchedulerService/HTTP"  # stands for what is read over HTTP

_OWN = "/gosched.v1."
_CLIENTS = frozenset({Role.CLIENT})
# What each role may call. Masters may call everything: they pass on what others call.
BY_SERVICE = {
    "SchedulerService": _CLIENTS,
    "NodeService": _CLIENTS,
    "ClusterService": frozenset[Role](),
    "HistoryService": _CLIENTS,
    "AccessService": _CLIENTS,
    "JoinService": _CLIENTS,
}
BY_METHOD = {
    "NodeService/RegisterNode": frozenset({Role.AGENT}),
    "NodeService/Heartbeat": frozenset({Role.AGENT}),
    "JoinService/GetAuthority": frozenset({Role.CLIENT, Role.AGENT}),
    "JoinService/Join": frozenset({Role.CLIENT, Role.AGENT}),
    "JoinService/RenewCertificate": frozenset({Role.AGENT}),
    "ClusterService/FinalizeUpgrade": _CLIENTS,
    "ClusterService/AddMaster": _CLIENTS,
    "ClusterService/RemoveMaster": _CLIENTS,
    "ClusterService/ListMembers": _CLIENTS,
    "ClusterService/TakeBackup": _CLIENTS,
    "ClusterService/TakeSnapshot": _CLIENTS,
    "ClusterService/TransferLeadership": _CLIENTS,
    "ClusterService/GetMasterHealth": _CLIENTS,
    "ClusterService/SetLogLevel": _CLIENTS,
    "HistoryService/StreamHistory": frozenset(),
    "SchedulerService/GetClusterStatus": frozenset({Role.CLIENT, Role.AGENT}),
}


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
    #: It showed no certificate: it is nobody until its token says who it is.
    is_guest: bool = False
    #: Where it called from; no rule is made from it. Empty: not known, or from this master itself.
    address: str = field(default="", compare=False)

    @property
    def header(self) -> tuple[tuple[str, str], ...]:
        """Return the metadata that name the caller to the master that its call is passed on to."""
        caller = (
            self.name
            if self.role is None
            else CertificateHolder(cluster=self.cluster, role=self.role, name=self.name).uri()
        )
        more = {"groups": self.groups, "token": self.token, "until_ms": self.until_ms, "guest": self.is_guest}
        told = self.role is Role.CLIENT and any(more.values())
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


#: What a master asks for itself.
ITSELF = Caller(role=None, name=UNNAMED)


def caller_of(context: Any) -> Caller:
    """Return the caller of a gRPC call. Raises ApiError for a certificate that gives no role, and without TLS for a
    public address."""
    certificate = context.auth_context()
    metadata = {key: str(value) for key, value in context.invocation_metadata() or () if key in (FORWARDED, IDENTITY)}
    named = metadata.get(FORWARDED, "")
    if certificate.get("transport_security_type") != [b"ssl"]:
        host = host_of(context.peer())
        _check_private(host)
        return Caller(role=None, name=named if named not in ("", UNNAMED) else host, address=host)
    address = host_of(context.peer())
    if not certificate.get("x509_pem_cert"):
        return Caller(role=Role.CLIENT, name=address, is_guest=True, address=address)
    direct = _read(partial(caller_identity, certificate))
    if direct.role is Role.MASTER and named not in ("", UNNAMED):
        address = _forwarded_address(context) or address
        return _passed_on(_read(partial(identity_of, [named])), metadata.get(IDENTITY, ""), address)
    name = direct.name or b"".join(certificate.get("x509_common_name", ())[:1]).decode(errors="replace")
    groups = organizations(b"".join(certificate.get("x509_pem_cert", ())[:1])) if direct.role is Role.CLIENT else ()
    return Caller(role=direct.role, name=name or address, cluster=direct.cluster, groups=groups, address=address)


def http_caller(transport: Any) -> Caller:
    """Return the caller of an HTTP request. Raises ApiError."""
    certificate = transport.get_extra_info("peercert") if transport else None
    address = transport.get_extra_info("peername") if transport else None
    host = str(address[0]) if address else "?"
    if not certificate and transport is not None and transport.get_extra_info("ssl_object") is not None:
        return Caller(role=Role.CLIENT, name=host, is_guest=True, address=host)
    if not certificate:
        _check_private(host)
        return Caller(role=None, name=host, address=host)
    holder = _read(partial(holder_of, certificate))
    names = [value for pairs in certificate.get("subject", ()) for kind, value in pairs if kind == "commonName"]
    groups = [value for pairs in certificate.get("subject", ()) for kind, value in pairs if kind == "organizationName"]
    return Caller(
        role=holder.role,
        name=holder.name or next(iter(names), host),
        cluster=holder.cluster,
        groups=tuple(sorted(set(groups))) if holder.role is Role.CLIENT else (),
        address=host,
    )


def check_allowed(caller: Caller, method: str, cluster_id: str) -> None:
    """Raises ApiError unless a caller of this role may call this method of this cluster."""
    if caller.role is None:
        return
    if not CertificateHolder(cluster=caller.cluster).is_of(cluster_id):
        raise denied(f"the certificate is of cluster {caller.cluster}, and this is cluster {cluster_id}")
    if caller.role is not Role.MASTER and caller.role not in allowed(method):
        raise denied(
            f"a certificate of role {caller.role.value} may not call {method.rpartition('/')[2]}:"
            f" it needs {_needed(method)}"
        )


def allowed(method: str) -> frozenset[Role]:
    """Return the roles, beside masters, that may call a method. Every role may call health and reflection."""
    if not method.startswith(_OWN):
        return frozenset(Role)
    service_and_name = method.removeprefix(_OWN)
    service = service_and_name.partition("/")[0]
    return BY_METHOD.get(service_and_name, BY_SERVICE.get(service, frozenset()))


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
            is_guest=bool(told.get("guest", False)),
            address=address,
        )
    except (ValueError, TypeError, AttributeError) as error:
        raise denied(f"{IDENTITY} of a call that was passed on cannot be read: {error}") from None


def _needed(method: str) -> str:
    roles = sorted(role.value for role in allowed(method)) or [Role.MASTER.value]
    return f"gosched://CLUSTER/{' or '.join(roles)}/NAME among its alternative names"


def _read(certificate: Callable[[], CertificateHolder]) -> CertificateHolder:
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
