"""gosched's own code on a virtual clock.

`raft` simulates the replicated log alone, under faults; `cluster` simulates whole clusters, fed from traces.
"""
