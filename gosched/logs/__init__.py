"""The log of a process: one format for its own lines, for those of libraries, and for what C code writes to stderr.

Invariant: whatever a process writes to stderr once its log has begun is one record per line, but for the one-line
errors by which it says why it does not start or go on, and for what faulthandler says of a crash.
"""
