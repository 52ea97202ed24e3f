"""The seed of a cycle, so that it can be made again from what the log says."""

from __future__ import annotations

from hashlib import blake2b


def seed_of(epoch: int, revision: int) -> int:
    """Return 64 bits, the same on every machine."""
    return int.from_bytes(blake2b(f"{epoch}/{revision}".encode(), digest_size=8).digest(), "big")
