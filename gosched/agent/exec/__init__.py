"""Commands beside a task, at the request of its owner."""
