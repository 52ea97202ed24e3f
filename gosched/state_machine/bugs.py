"""Bugs that handlers meet: what is refused for one, a command or a gang of a plan.

Invariant: only what had written nothing is refused, and only for what all masters meet alike; anything else leaves
`apply`.
"""

from __future__ import annotations

from gosched.core.events import CommandFailed
from gosched.core.features import FeatureLevel
from gosched.core.lifecycle import IllegalStep
from gosched.core.limits import MAX_DETAIL_LENGTH
from gosched.core.state.cluster_state import ClusterState

#: What follows from state and command alone. Others may be one master's: an exhausted stack, a library that is gone.
ALIKE = (ArithmeticError, AssertionError, AttributeError, IllegalStep, LookupError, NameError, TypeError, ValueError)

_MAX_FRAMES = 20  # of a trace: the last ones say where


def refused(state: ClusterState, writes: int, command: str, error: Exception) -> CommandFailed:
    """Return what is to be told of a command, or a part of it, that raised and is refused. `writes`: the state's when
    it began. Raises the error if it may not be refused: something was written, or masters of the release before are
    there, which refuse nothing of the kind."""
    if state.writes != writes or state.feature_level < FeatureLevel.BOUNDED:
        raise error
    why = type(error).__name__  # its words may hold addresses, and are remembered
    return CommandFailed(command=command, why=why, trace=_trace(error))


def _trace(error: Exception) -> str:
    """Return where it was raised, the innermost function last, and its words."""
    frames: list[str] = []
    at = error.__traceback__
    while at is not None:
        code = at.tb_frame.f_code
        frames.append(f"{code.co_filename.rpartition('/')[2]}:{at.tb_lineno} {code.co_name}")
        at = at.tb_next
    return f"{' > '.join(frames[-_MAX_FRAMES:])}: {str(error)[:MAX_DETAIL_LENGTH]}"
