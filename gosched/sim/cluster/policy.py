"""The planner's policy, as a master makes it of its settings.

Invariant: what cannot be made alike here is refused, not left out.
"""

from __future__ import annotations

from dataclasses import replace

from gosched.config import MasterSettings
from gosched.scheduling import Policy
from gosched.scheduling.policy import ALL


def policy_of(settings: MasterSettings) -> Policy:
    """Return the policy. Raises ConfigError for plugins: only masters load them."""
    if settings.plugins:
        raise settings.error("plugins", "plugins run in masters alone: take them out of a copy of this file")
    scheduling = settings.scheduling
    return replace(
        Policy.of(settings.server.algorithm, settings.topology),
        reservations=ALL if scheduling.reservations is None else scheduling.reservations,
        max_wait_ms=scheduling.overtake.max_wait_ms,
        max_victims=scheduling.max_victims,
        max_victims_per_tenant=scheduling.max_victims_per_tenant,
    )
