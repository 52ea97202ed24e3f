"""Who the members are: this one by its data directory, all of them by the log, and their changes."""
