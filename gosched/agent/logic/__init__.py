"""The agent's decisions, pure: what is wanted and what is there, into what to do."""
