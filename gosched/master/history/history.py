"""The history of a master, put together: what follows the log, what keeps it, what answers for it."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from pathlib import Path

from gosched.config import MasterSettings
from gosched.master.base.access import Access
from gosched.master.base.channels import Channels
from gosched.master.base.errors import ApiError
from gosched.master.base.proposals import Proposals
from gosched.master.history.database import Bounds
from gosched.master.history.feed import Feed
from gosched.master.history.fetching import HistoryFetch
from gosched.master.history.recorder import NotedReason, Recorder
from gosched.master.history.service import HistoryService
from gosched.master.history.store import HistoryStore
from gosched.observe.faults import Faults
from gosched.replication.interface import Replication

FILE = "history.db"


class History:
    def __init__(
        self,
        replication: Replication,
        proposals: Proposals,
        masters: Channels,
        access: Access,
        settings: MasterSettings,
        faults: Faults,
    ) -> None:
        kept = settings.history
        bounds = Bounds(events=kept.max_events, tasks=kept.max_tasks, jobs=kept.max_jobs, size=kept.max_bytes)
        self.store = HistoryStore(Path(settings.data_dir, FILE), bounds, faults)
        self.feed = Feed()
        self._recorder = Recorder(replication, self.store, self.feed, faults)
        self._fetch = HistoryFetch(replication, self.store, masters)
        self.service = HistoryService(
            replication=replication,
            proposals=proposals,
            store=self.store,
            feed=self.feed,
            access=access,
            masters=masters,
        )

    @property
    def reasons(self) -> Mapping[str, NotedReason]:
        """Return why pending jobs wait, by their ids, as it was noted last in the log. Not all have a reason yet."""
        return self._recorder.reasons

    async def start(self) -> None:
        """Open the file; to be called before the log is read."""
        await self.store.start()
        self._recorder.begin()

    async def run(self) -> None:
        """Fetch what is missing, until it is cancelled."""
        with contextlib.suppress(ApiError):  # they are noted again
            await self._recorder.load_reasons()
        await self._fetch.run()

    async def stop(self) -> None:
        await self.store.stop()
