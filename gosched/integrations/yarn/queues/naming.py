"""Names of YARN's queues as ours."""

from __future__ import annotations

import re

from gosched.config.errors import ConfigError, shown

_FOREIGN = re.compile(r"[^A-Za-z0-9_-]")


class Names:
    """Paths that were given, so that no two queues become one."""

    def __init__(self, source: str) -> None:
        self._source = source
        self._given: dict[str, str] = {}

    def path(self, parent: str, name: str) -> str:
        """Return the path of a queue; what a name here cannot have becomes `_`. Raises ConfigError."""
        own = _FOREIGN.sub("_", name)
        path = f"{parent}.{own}" if parent else own
        if path in self._given:
            raise ConfigError(
                f"{self._source}: the queues {shown(self._given[path])} and {shown(name)} are both {path}"
            )
        self._given[path] = name
        return path
