"""The level of a master's log, changed while it runs: of its front, its replica, and the relay of what libraries write.

Invariant: all processes of a master show records from the same level on.
"""

from __future__ import annotations

from typing import get_args

import structlog

from gosched.config.settings import LogLevel
from gosched.logs import process as process_log
from gosched.replication.interface import Replication

LEVELS = get_args(LogLevel)

log = structlog.get_logger()


class MasterLogLevel:
    def __init__(self, replication: Replication, level: str) -> None:
        self._replication = replication
        self.level = level

    def set(self, level: str) -> None:
        """Show records from this level on. Raises ValueError."""
        if level not in LEVELS:
            raise ValueError(f"level: expected {', '.join(LEVELS[:-1])} or {LEVELS[-1]}, got {level[:32]!r}")
        if level == self.level:
            return
        before, self.level = self.level, level
        if logging := process_log.current():
            logging.set_level(level)
        self._replication.set_log_level(level)
        log.warning("the log's level was changed", before=before, after=level)
