"""The planner: a view in, a plan out. Pure; it never sees the clock, the network or the state itself."""

from gosched.scheduling.cycle import schedule
from gosched.scheduling.explain.explainer import warnings
from gosched.scheduling.explain.explanation import Explanation
from gosched.scheduling.plan import Plan
from gosched.scheduling.policy import Policy
from gosched.scheduling.queries.deadline_admission import Admission, admit
from gosched.scheduling.queries.explain_on_request import explain_on_request
from gosched.scheduling.queries.what_if import WhatIf, WhatIfPlan, what_if
from gosched.scheduling.rng_seed import seed_of
from gosched.scheduling.snapshot.builder import ViewBuilder
from gosched.scheduling.snapshot.view import NodeColumns, View

__all__ = [
    "Admission",
    "Explanation",
    "NodeColumns",
    "Plan",
    "Policy",
    "View",
    "ViewBuilder",
    "WhatIf",
    "WhatIfPlan",
    "admit",
    "explain_on_request",
    "schedule",
    "seed_of",
    "warnings",
    "what_if",
]
