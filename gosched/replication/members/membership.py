"""What a member is to its cluster: it waits to found it, joins it without a vote, or takes part.

A cluster is founded once. A member whose directory is empty takes part in that only after it has heard that all others
hold no entries either (rule R15); where one holds some it joins (rule R9), whatever the config says: a log with entries
had a leader, so a majority takes part already. Invariant: a change is on the disk before the member acts by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import structlog

from gosched.replication.disk.damage import DamagedLog
from gosched.replication.disk.disk import Disk
from gosched.replication.members.identity import IDENTITY, Identity, joined, save_identity

JOIN_QUIET_S = 5.0  # at least
_SAY_AGAIN_S = 30.0

log = structlog.get_logger()


class Membership:
    """The identity of this member, and its changes. `now` is always the monotonic time in seconds.

    One that joins neither votes nor answers for `quiet_s`: a leader that counted on the lost disk has stepped down by
    then.
    """

    def __init__(
        self, disk: Disk, identity: Identity, others: Iterable[str], *, now: float, quiet_s: float = JOIN_QUIET_S
    ) -> None:
        self._disk = disk
        self.quiet_s = quiet_s
        self.identity = identity
        self._unheard = set(others)
        self._founder = ""  # a member that holds entries, or was told of one
        self._leader_since: float | None = None
        self._quiet_until = now + quiet_s if identity.joining else now
        self._say_at = now + 2.0

    @property
    def votes(self) -> bool:
        return not (self.identity.founding or self.identity.joining)

    def is_empty(self, last_index: int) -> bool:
        """Return whether nothing of a cluster is here but, it may be, terms and votes. The first entry is in every
        log."""
        return last_index <= 1 and not self.identity.joining and not self.identity.cluster_id

    def takes_part(self, now: float) -> bool:
        """Return whether this member hears messages at all."""
        return not self.identity.founding and now >= self._quiet_until

    def heard(self, member: str, *, empty: bool) -> None:
        """Note that a member introduced itself."""
        self._unheard.discard(member)
        if not empty:
            self._founder = member

    def hears_leader(self, member: str, now: float) -> None:
        """Note a leader: one that was empty a moment ago may lead now, and this member be the last to hear of all the
        others.
        """
        if self._leader_since is None:
            self._leader_since = now
        elif now - self._leader_since > self.quiet_s:
            self._founder = member

    def decide(self, now: float) -> None:
        """End the waiting, if there is enough to decide by. Raises DiskFailed."""
        if not self.identity.founding:
            return
        if self._founder:
            log.warning(
                "this master's data directory is empty, but the cluster exists: it joins without a vote until it has "
                "caught up",
                peer=self._founder,
            )
            self._change(replace(self.identity, founding=False, joining=True))
            self._quiet_until = now + self.quiet_s
        elif not self._unheard:
            log.info("all masters are new: they found the cluster")
            self._change(replace(self.identity, founding=False))
        elif now >= self._say_at:
            self._say_at = now + _SAY_AGAIN_S
            log.info("to found the cluster this master has to hear from all others once", missing=sorted(self._unheard))

    def is_settled(self) -> None:
        """Note that the members stand in the log."""
        if not self.identity.settled:
            self._change(replace(self.identity, settled=True))

    def is_removed(self) -> None:
        """Note for good that this member was removed: an older log may still name it."""
        if not self.identity.removed:
            self._change(replace(self.identity, removed=True))

    def caught_up(self) -> None:
        if self.identity.joining:
            self._change(joined(self.identity))
            log.info("caught up: this master votes now")

    def belongs_to(self, cluster_id: str) -> None:
        """Note the cluster that the applied log names. Raises DamagedLog where the directory is of another one;
        DiskFailed.
        """
        known = self.identity.cluster_id
        if not cluster_id or known == cluster_id:
            return
        if known:
            raise DamagedLog(
                f"the log is of cluster {cluster_id}, but {IDENTITY} says {known}: files of two clusters are mixed in "
                "the data directory, or the other masters are another cluster. Remove nothing before that is clear"
            )
        self._change(replace(self.identity, cluster_id=cluster_id))

    def _change(self, identity: Identity) -> None:
        save_identity(self._disk, identity)
        self.identity = identity
