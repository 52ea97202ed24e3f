"""The agent's brain, pure: what is wanted and what is there, into what to do."""
