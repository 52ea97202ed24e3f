"""Why one gang waits, worked out when somebody asks: as if it were the only one that waits at the view."""

from __future__ import annotations

from gosched.scheduling.explain import Explainer, Explanation, Reason, held_back
from gosched.scheduling.gangs import place
from gosched.scheduling.limits import Limits
from gosched.scheduling.plugins import Plugins
from gosched.scheduling.policy import Policy
from gosched.scheduling.room import Room
from gosched.scheduling.terrain import Terrain
from gosched.scheduling.view import View

_FITS_NOW = Explanation(code=Reason.QUEUED, message="it fits by now; its turn comes in the next cycle")


def look_again(view: View, policy: Policy, job_id: str) -> Explanation | None:
    """The whole explanation; None for a job that does not wait. Costs a look at every node."""
    gang = next((gang for gang in view.pending if gang.job_id == job_id), None)
    if gang is None:
        return None
    room, limits = Room(view.nodes), Limits(view)
    terrain = Terrain(view, policy, room, Plugins(view, policy.plugins, policy.runner))
    if held := limits.why_not(gang):
        return held_back(*held)
    allowance = limits.allowance(gang)
    if place(gang, room, terrain, 0, allowance):
        return _FITS_NOW
    return Explainer(room, terrain).full(gang, allowance.banned)
