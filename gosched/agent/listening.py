"""Where the agent listens, and under which address the masters reach it."""

from __future__ import annotations

import contextlib
import errno
import socket
from typing import Any

from gosched.agent.host import CannotStart
from gosched.config import AgentSettings, Listen
from gosched.config.address import join_address, split_address
from gosched.wire.grpc_tls import server_credentials
from gosched.wire.tls_watch import TlsWatch


def bind(server: Any, tls: TlsWatch | None, listen: Listen) -> int:
    """Listen, and return the port, which is a free one where 0 was asked for."""
    _check_free(listen)
    try:
        if tls is None:
            port: int = server.add_insecure_port(listen.address)
        else:
            port = server.add_secure_port(listen.address, server_credentials(tls))
    except RuntimeError as error:
        raise CannotStart(f"cannot listen on {listen.address}: {error}") from error
    return port


def advertised(settings: AgentSettings, listen: Listen, port: int) -> str:
    """Return an address that the masters can dial. An agent that listens everywhere names the address it has towards
    them."""
    if settings.advertise_addr:
        host, colon, digits = settings.advertise_addr.rpartition(":")
        if not colon:
            return join_address(settings.advertise_addr, port)
        return settings.advertise_addr if digits != "0" else join_address(host, port)
    if not listen.is_every_interface:
        return join_address(listen.host, port)
    master, master_port = split_address(settings.masters[0])
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect((master, master_port))  # sends nothing: it only asks for a route
        return join_address(str(probe.getsockname()[0]), port)
    return join_address(socket.gethostname(), port)


def _check_free(listen: Listen) -> None:
    """Raise CannotStart where the port is taken: gRPC says why in several lines of its own, and not to the caller."""
    family = socket.AF_INET6 if ":" in listen.host else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((listen.host, listen.port))
    except OSError as error:
        reason = "the port is in use" if error.errno == errno.EADDRINUSE else error.strerror or str(error)
        raise CannotStart(f"cannot listen on {listen.address}: {reason}; choose another with --grpc-addr") from error
