"""What stands between a client and its masters: a look at each, once calls have failed for a while."""

from __future__ import annotations

from collections.abc import Sequence

from gosched.client.targets import TlsFiles
from gosched.wire import probe
from gosched.wire.addresses import AddressBook

LOOK_S = 0.5  # at one master


def look_at_all(addresses: Sequence[str], tls: TlsFiles | None, book: AddressBook) -> dict[str, probe.Obstacle | None]:
    """Return for each `host:port` what keeps gRPC from talking to it; None: nothing that can be seen."""
    paths = probe.TlsPaths(cert=str(tls.cert), key=str(tls.key), ca=str(tls.ca)) if tls else None
    return probe.look_at_all(addresses, paths, LOOK_S, book) if addresses else {}
