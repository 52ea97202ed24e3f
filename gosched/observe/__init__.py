"""What operators see: metrics and log lines, made from events.

Invariant: it reads, and decides nothing.
"""
