"""The work of the leader, from the gain of leadership to its loss."""
