"""What a master tells `goschedctl cluster upgrade-check`, and `status` while none leads, of itself: of its own
knowledge alone, whichever master leads."""

from __future__ import annotations

import os

from gosched import __version__
from gosched.api.status import MasterHealth
from gosched.core.features import NEWEST_LEVEL
from gosched.master.base.clock import StateClock
from gosched.replication.interface import Replication

_ROOM_BYTES = 64 << 20  # beside what the state needs


def master_health(replication: Replication, clock: StateClock, data_dir: str) -> MasterHealth:
    """Return the facts. Raises OSError where the data directory cannot be looked at."""
    role, state = replication.role, replication.state
    disk = os.statvfs(data_dir or ".")
    return MasterHealth(
        id=replication.member_id,
        release=__version__,
        feature_level=state.feature_level,
        newest_feature_level=NEWEST_LEVEL,
        applied_index=role.applied_index,
        commit_index=role.commit_index,
        revision=state.revision,
        leader=role.leader,
        clock_ms=clock.wall_ms(),
        disk_free_bytes=disk.f_bavail * disk.f_frsize,
        # A new snapshot and a new log are written before the old ones go.
        disk_needed_bytes=state.footprint.total + role.log_bytes + _ROOM_BYTES,
        role=role.part.name.lower(),
        term=role.term,
        last_index=role.last_index,
        masters=tuple(sorted((master.id, master.grpc_address) for master in state.masters.values())),
    )
