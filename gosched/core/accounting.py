"""What tenants used of late: accounts brought up to date, and read.

An account sums amounts times milliseconds, which decay. Memory and storage count there in MiB, and a sum stops at
`_MOST`: each fits into 64 bits in the log and in snapshots.
"""

from __future__ import annotations

from collections.abc import Mapping

from gosched.core.decay import accrued, average, decayed
from gosched.core.records.queue import Queue
from gosched.core.records.tenant import Account
from gosched.core.replace import replace
from gosched.core.sharing import IN_BYTES, Amounts, as_map, lineage

_MOST = (1 << 63) - 1
_MIB_SHIFT = 20


def half_life_of(queues: Mapping[str, Queue], path: str) -> int:
    """Return the half-life of the nearest queue, upwards from this one, that has one; 0: none has, and nothing is
    accounted."""
    for ancestor in reversed(lineage(path)):
        if queues[ancestor].half_life_ms:
            return queues[ancestor].half_life_ms
    return 0


def brought_up(account: Account, held: Mapping[str, int], half_life_ms: int, now_ms: int) -> Account:
    """Return the account at a later moment; `held` (amounts by name) has not changed since."""
    elapsed = now_ms - account.at_ms
    if elapsed <= 0:
        return account
    used = {name: decayed(amount, elapsed, half_life_ms) for name, amount in account.used}
    for name, amount in held.items():
        more = accrued(amount >> _shift(name), elapsed, half_life_ms)
        used[name] = min(used.get(name, 0) + more, _MOST)
    return replace(account, used=as_map(used), at_ms=now_ms)


def lessened(account: Account, held: Mapping[str, int], half_life_ms: int, elapsed_ms: int) -> Account:
    """Return the account without what was counted for holding `held` for the last `elapsed_ms`."""
    used = dict(account.used)
    for name, amount in held.items():
        used[name] = max(used.get(name, 0) - accrued(amount >> _shift(name), elapsed_ms, half_life_ms), 0)
    return replace(account, used=as_map({name: amount for name, amount in used.items() if amount}))


def average_use(account: Account, half_life_ms: int) -> Amounts:
    """Return the constant use that would have led to this account, in the units of `charge_of`."""
    return {name: average(amount, half_life_ms) << _shift(name) for name, amount in account.used}


def rescaled(account: Account, half_life_ms: int, new_half_life_ms: int) -> Account:
    """Return the account of the same average use by another half-life."""
    used = {name: min(amount * new_half_life_ms // half_life_ms, _MOST) for name, amount in account.used}
    return replace(account, used=as_map(used))


def _shift(name: str) -> int:
    return _MIB_SHIFT if name in IN_BYTES else 0
