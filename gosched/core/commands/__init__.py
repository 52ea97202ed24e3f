"""Commands: everything that may change the state."""
