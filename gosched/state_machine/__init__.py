"""The replicated state machine: `apply` turns a command into an outcome and events.

Invariant: pure and total. The same commands in the same order make the same state, on every master.
"""

from gosched.state_machine.apply import Applied, MachineBug, apply

__all__ = ["Applied", "MachineBug", "apply"]
