"""The planner: a view in, a plan out. Pure; it never sees the clock, the network or the state itself."""

from gosched.scheduling.builder import ViewBuilder
from gosched.scheduling.cycle import schedule
from gosched.scheduling.explain import Explanation, Reason, warnings
from gosched.scheduling.look_again import look_again
from gosched.scheduling.plan import Plan
from gosched.scheduling.policy import Policy
from gosched.scheduling.view import NodeColumns, View

__all__ = [
    "Explanation",
    "NodeColumns",
    "Plan",
    "Policy",
    "Reason",
    "View",
    "ViewBuilder",
    "look_again",
    "schedule",
    "warnings",
]
