"""Looks whether the port of a job is free on this host, before the task starts that listens there."""

from __future__ import annotations

import errno
import socket

_ANY = ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::"))


def is_taken(port: int) -> bool:
    """Return whether a program of this host listens on the port, at any address."""
    return any(_cannot_bind(family, address, port) for family, address in _ANY)


def _cannot_bind(family: socket.AddressFamily, address: str, port: int) -> bool:
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # what an earlier program left does not matter
            probe.bind((address, port))
    except OSError as error:  # a host without IPv6 is none that listens there
        return error.errno == errno.EADDRINUSE
    return False
