"""Certificates that are refused although their authority signed them."""

from __future__ import annotations

from gosched.client import records
from gosched.client.calls import ACCESS, Call, names, rpc
from gosched.wire.codec import to_record
from gosched.wire.v1 import access_pb2


def revoke_certificate(
    certificate: bytes | str, *, reason: str = "", force: bool = False, request_id: str | None = None
) -> Call[records.Revoked]:
    """Have all masters refuse a certificate: its contents (PEM), or its serial number in hex.
    `force`: also the one that this client uses itself."""
    request = access_pb2.RevokeCertificateRequest(
        **names(request_id),
        certificate=certificate if isinstance(certificate, bytes) else b"",
        serial=certificate if isinstance(certificate, str) else "",
        reason=reason,
        force=force,
    )
    return Call(
        rpc=rpc(ACCESS, "RevokeCertificate"),
        request=request,
        read=lambda answer: to_record(answer, records.Revoked),
        is_change=True,
    )


def list_revocations() -> Call[list[records.Revocation]]:
    """Return the revoked certificates that have not ended, the newest first."""
    return Call(
        rpc=rpc(ACCESS, "ListRevocations"),
        request=access_pb2.ListRevocationsRequest(),
        read=lambda answer: [to_record(one, records.Revocation) for one in answer.revocations],
    )


def unrevoke_certificate(serial: str, *, request_id: str | None = None) -> Call[None]:
    """Have masters take a certificate again, by its serial number in hex."""
    request = access_pb2.UnrevokeCertificateRequest(**names(request_id), serial=serial)
    return Call(rpc=rpc(ACCESS, "UnrevokeCertificate"), request=request, read=lambda answer: None, is_change=True)
