"""Small processes that outlive the agent: a nursery, and one supervisor for each task, forked from it.

Invariant: standard library only, all of it imported before the first fork. So a supervisor shares nearly all its memory
with the others, starts in a millisecond, and keeps running when its source files are replaced.
"""
