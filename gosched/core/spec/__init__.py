"""What a user submits: jobs, their task groups, rules and policies."""
