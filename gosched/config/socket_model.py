"""The key `server.socket` of masters: where programs of the same machine call, who are known by their accounts."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator

from gosched.config.errors import shown

#: A socket's name has at most 107 bytes in Linux, and the names in the directory beside it are longer than its own.
MAX_PATH_BYTES = 80


def socket_path(value: str) -> str:
    """Check the path of a socket."""
    if not value.startswith("/") or value.endswith("/") or not value.isprintable() or "," in value:
        raise ValueError(f"expected an absolute path, such as /run/gosched/master.sock, got {shown(value)}")
    if len(value.encode()) > MAX_PATH_BYTES:
        raise ValueError(f"has {len(value.encode())} bytes; the path of a socket has at most {MAX_PATH_BYTES} here")
    return value


SocketPath = Annotated[str, AfterValidator(socket_path)] | Literal[""]
