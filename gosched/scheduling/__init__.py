"""The planner: a view in, a plan out. Pure; it never sees the clock, the network or the state itself."""

from gosched.scheduling.admission import Admission, admit
from gosched.scheduling.builder import ViewBuilder
from gosched.scheduling.cycle import schedule
from gosched.scheduling.explain import warnings
from gosched.scheduling.explanation import Explanation, Reason
from gosched.scheduling.look_again import look_again
from gosched.scheduling.plan import Plan
from gosched.scheduling.policy import Policy
from gosched.scheduling.seed import seed_of
from gosched.scheduling.view import NodeColumns, View
from gosched.scheduling.what_if import WhatIf, WhatIfPlan, what_if

__all__ = [
    "Admission",
    "Explanation",
    "NodeColumns",
    "Plan",
    "Policy",
    "Reason",
    "View",
    "ViewBuilder",
    "WhatIf",
    "WhatIfPlan",
    "admit",
    "look_again",
    "schedule",
    "seed_of",
    "warnings",
    "what_if",
]
