"""A whole cluster on a virtual clock: the state machine and the planner of a master, fed from a trace.

Invariant: nothing is modelled that the real code does; only agents and people are played. The same inputs give the
same run.
"""
