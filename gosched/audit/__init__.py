"""The audit log: who changed what, from where, and what was refused, as lines of JSON that a chain of hashes joins.

Nothing here knows masters or gRPC: masters write it, `goschedctl audit` reads it.
"""
