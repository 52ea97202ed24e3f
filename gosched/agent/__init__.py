"""The agent: runs tasks on one node under supervisors that outlive it, and keeps a session with the masters."""
