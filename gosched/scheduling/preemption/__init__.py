"""Which running gangs may be evicted, which of them are, and how a gang that lost nodes is repaired."""
