"""The header for servers that ask for Kerberos, by GSSAPI: the extra `kerberos`, imported once a server asks."""

from __future__ import annotations

import base64
import os
from importlib import import_module

from gosched.integrations.yarn.errors import YarnDenied

_SPNEGO = "1.3.6.1.5.5.2"


def negotiate(host: str) -> str:
    """Return the header `Authorization` for a server, of the tickets that the process has: those of `kinit`, or of the
    keytab that KRB5_CLIENT_KTNAME names. May ask a KDC. Raises YarnDenied."""
    asks = f"{host} asks for Kerberos"
    try:
        gssapi = import_module("gssapi")
    except ImportError as error:
        raise YarnDenied(f"{asks}: pip install 'gosched[kerberos]' ({error})") from error
    try:
        server = gssapi.Name(f"HTTP@{host}", gssapi.NameType.hostbased_service)
        mechanism = gssapi.OID.from_int_seq(_SPNEGO)
        token = gssapi.SecurityContext(name=server, usage="initiate", mech=mechanism).step()
    except gssapi.exceptions.MissingCredentialsError as error:
        keytab = os.environ.get("KRB5_CLIENT_KTNAME", "")
        of_keytab = f" with KRB5_CLIENT_KTNAME={keytab}" if keytab else ""
        raise YarnDenied(f"{asks}, and there is no ticket{of_keytab}: kinit gets one") from error
    except gssapi.exceptions.GSSError as error:
        words = "; ".join(error.get_all_statuses(error.min_code, False)).replace("\0", "").strip()
        raise YarnDenied(
            f"{asks}, and there is no ticket for HTTP/{host}: {words} (klist shows the tickets, kinit gets a new one)"
        ) from error
    return f"Negotiate {base64.b64encode(token).decode()}"
