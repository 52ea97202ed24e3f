"""Keys of the metadata of calls that clients and masters both know."""

from __future__ import annotations

LEADER = "gosched-leader"  # whom a call was passed on to, in the trailing metadata of its answer: host:port of gRPC
REASON = "gosched-reason"  # why a call was refused, in the trailing metadata of the error: wire/refusals.py
