"""Which feature level the masters of the cluster know, and its raise once all of them know a newer one.

Invariant: the level is raised by an operator alone, and only while every master is connected and knows
the new one; a master that does not could not apply the next entry of the log.
"""

from __future__ import annotations

from gosched.core.commands.cluster import SetFeatureLevel
from gosched.core.features import NEWEST_LEVEL
from gosched.core.outcome import Accepted
from gosched.master.base.errors import accepted, unmet
from gosched.master.base.ids import new_cluster_id, new_task_key
from gosched.master.base.proposals import Proposals
from gosched.master.cluster.members import MemberList
from gosched.replication.interface import Replication


class FeatureLevels:
    def __init__(self, replication: Replication, members: MemberList) -> None:
        self._replication = replication
        self._members = members

    def newest(self) -> dict[str, int]:
        """Return the newest level that each master knows; 0: it is not connected."""
        known = self._replication.role.newest_levels
        others = {other: known.get(other, 0) for other in sorted(self._members.others())}
        return {self._replication.member_id: NEWEST_LEVEL, **others}

    def common(self) -> int:
        """Return the newest level that all masters know; 0: one of them is away."""
        return min(self.newest().values())

    async def raise_all(self, proposals: Proposals, *, client_id: str, request_id: str) -> Accepted:
        """Raise the cluster's level to the newest that all masters know. Raises ApiError."""
        now, newest = self._replication.state.feature_level, self.newest()
        away = [member for member, level in newest.items() if not level]
        if away:
            raise unmet(
                f"master {away[0]} is not connected, so which level it knows is not known: start it, or remove it "
                f"(goschedctl cluster remove-master {away[0]}; below feature level 5: take it out of raft.peers)"
            )
        older = [member for member, level in newest.items() if level < NEWEST_LEVEL]
        level = min(newest.values())
        if older and level <= now:
            raise unmet(f"master {older[0]} knows feature level {newest[older[0]]} only: upgrade it first")
        cluster_id = self._replication.state.cluster_id or new_cluster_id()
        command = SetFeatureLevel(level=level, cluster_id=cluster_id, task_key=new_task_key())
        return accepted(await proposals.propose(command, client_id=client_id, request_id=request_id))
