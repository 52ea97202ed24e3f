"""What the seeds are run under: each profile stresses one side of the replicated log."""

from __future__ import annotations

from dataclasses import dataclass, field

from gosched.replication.raft.timing import Timing
from gosched.sim.raft.network import Weather

_USUAL = Weather()
_CALM = Weather(slow_share=0.0)
_SLOW = Weather(slow=1.5, slow_share=0.05)
_STALLS = Weather(slow=1.9, slow_share=0.02)
_TIMING = Timing()
_SLOW_ELECTIONS = Timing(election_min=0.8, election_max=1.6, leader_fallback=1.6)

_FAULTS = {
    "crash": 3,
    "pause": 2,
    "cut": 2,
    "isolate": 2,
    "heal": 4,
    "reset": 2,
    "transfer": 1,
    "restart all": 0.3,
    "disk full": 0.3,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Profile:
    """What one run does. Times are in seconds."""

    duration: float = 12.0
    ask_every: float = 0.08
    burst: int = 1
    weather: Weather = _USUAL
    healed: Weather = _CALM
    timing: Timing = _TIMING
    #: Small where logs shall differ by many messages.
    batch_bytes: int = 1024 * 1024
    compact_entries: int = 1 << 30
    fault_every: float = 0.7
    #: Kind -> weight.
    faults: dict[str, float] = field(default_factory=lambda: dict(_FAULTS))
    downtime: float = 2.5
    pause: float = 2.0
    power_loss_share: float = 0.5
    slow_sync: float = 0.0
    snapshot_s: float = 0.5
    members: bool = False  # they change: d and e may be added to a, b and c


_CHANGES = {
    "add": 6,
    "remove": 4,
    "lose": 1.5,
    "wipe": 1,
    "crash": 3,
    "pause": 2,
    "cut": 2,
    "isolate": 2,
    "split": 3,
    "heal": 5,
    "reset": 2,
    "transfer": 2,
    "restart all": 0.5,
}


def _flood(**changes: object) -> Profile:
    values: dict[str, object] = {"batch_bytes": 1200, "burst": 12, "ask_every": 0.2, "duration": 10.0, **changes}
    return Profile(**values)  # type: ignore[arg-type]


def _members(**changes: object) -> Profile:
    values: dict[str, object] = {
        "members": True,
        "faults": _CHANGES,
        "fault_every": 0.3,
        "duration": 20.0,
        "downtime": 1.5,
        "ask_every": 0.15,
        **changes,
    }
    return Profile(**values)  # type: ignore[arg-type]


PROFILES: dict[str, Profile] = {
    "flood": _flood(),
    "floodsnap": _flood(compact_entries=60),
    "floodstall": _flood(weather=_STALLS, fault_every=0.4),
    "plain": Profile(),
    "slow": Profile(weather=_SLOW),
    "snap": Profile(compact_entries=20),
    "stall": Profile(weather=_STALLS, fault_every=0.4),
    "rtt100": Profile(weather=_SLOW, healed=Weather(delay=0.1, slow_share=0.0)),
    "rtt300": Profile(
        weather=Weather(delay=0.3, slow=1.5, slow_share=0.05),
        healed=Weather(delay=0.3, slow_share=0.0),
        timing=_SLOW_ELECTIONS,
        compact_entries=30,
    ),
    "stallsnap": Profile(weather=_STALLS, fault_every=0.4, compact_entries=20),
    "crash": Profile(
        faults={"crash": 8, "restart all": 1, "disk full": 1, "heal": 1, "reset": 1},
        fault_every=0.35,
        downtime=1.0,
        compact_entries=15,
        power_loss_share=0.7,
        slow_sync=0.05,
        snapshot_s=1.5,
    ),
    "slowsync": Profile(
        faults={"crash": 5, "restart all": 1, "heal": 2, "reset": 1, "isolate": 2, "pause": 1, "transfer": 1},
        fault_every=0.8,
        downtime=1.0,
        power_loss_share=0.8,
        slow_sync=0.6,
    ),
    "wipe": Profile(
        faults={"wipe": 6, "isolate": 3, "cut": 2, "heal": 3, "crash": 2, "pause": 2, "reset": 1},
        fault_every=0.5,
        downtime=1.0,
        compact_entries=25,
        duration=20.0,
    ),
    "members": _members(),
    "membersnap": _members(compact_entries=25, slow_sync=0.03),
}
