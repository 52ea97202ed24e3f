"""The replicated log on a virtual clock, disk and network: three to five masters' replicas, under faults of a seed.

One seed is one run, on every machine. Not simulated: bit rot, pages that reach the disk out of order, connections that
are open on one side only, journal writes in the middle of a background snapshot, a wiped disk that claims to be new,
and the socket to the front.
"""
