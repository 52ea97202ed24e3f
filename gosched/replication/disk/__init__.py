"""The log, the vote and the disk under them: what is synced, and how damage is told from a torn write."""
