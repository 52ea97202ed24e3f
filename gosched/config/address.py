"""Where programs listen. Invariant: nothing is open to the network unless TLS or `--insecure` says so.

Which callers are answered there without TLS is in gosched.wire.plain_text.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass

from gosched.config.errors import ConfigError, shown


@dataclass(frozen=True, slots=True, kw_only=True)
class Listen:
    """The address of a listener."""

    host: str
    port: int
    #: The setting of the address; empty: of a port for probes alone.
    key: str = ""
    #: One line to print at start, where the address was narrowed; else None.
    notice: str | None = None
    #: Reached from other machines without TLS, by `--insecure`.
    is_open: bool = False

    @property
    def address(self) -> str:
        return join_address(self.host, self.port)

    @property
    def is_every_interface(self) -> bool:
        return self.host in ("0.0.0.0", "::")


def resolve_listen(address: str, *, key: str, tls: bool, insecure: bool) -> Listen:
    """Return where to listen: `:9090` is every interface with TLS or `insecure`, loopback otherwise. An explicit host
    that is not loopback is refused without either. Raise ConfigError."""
    host, port = split_address(address)
    if not host and not (tls or insecure):
        notice = (
            f"{key} {address} listens on loopback only; configure tls, or pass --insecure, to be reached from elsewhere"
        )
        return Listen(host="127.0.0.1", port=port, key=key, notice=notice)
    host = host or "0.0.0.0"
    if is_loopback(host) or tls:
        return Listen(host=host, port=port, key=key)
    if not insecure:
        raise ConfigError(
            f"{key}: {address} is not loopback and there is no TLS: configure tls (cert, key, ca), or pass --insecure"
        )
    return Listen(host=host, port=port, key=key, is_open=True)


def open_warning(listens: Iterable[Listen]) -> str:
    """Return the one line that each start with `--insecure` says; empty: nothing is open without TLS."""
    named = ", ".join(f"{listen.key} {listen.address}" for listen in listens if listen.is_open)
    if not named:
        return ""
    return (
        f"WARNING: open without TLS (--insecure): {named}. Whoever reaches it from a private address controls the "
        "cluster; callers of public addresses are refused"
    )


def is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False  # a name: it may be anything


def split_address(address: object) -> tuple[str, int]:
    """Split `host:port`, `:port` or `[v6]:port`. Raise ValueError."""
    if not isinstance(address, str):
        raise ValueError(f"expected host:port, got {shown(address)}")
    host, colon, port = address.strip().rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ValueError(f"expected host:port with a port up to 65535, got {shown(address)}")
    bracketed = host.startswith("[") and host.endswith("]")
    if (":" in host and not bracketed) or any(c.isspace() or not c.isprintable() or c in ",=/" for c in host):
        raise ValueError(f"expected host:port (an IPv6 host in brackets), got {shown(address)}")
    return (host[1:-1] if bracketed else host), int(port)


def join_address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
