"""The leader and its agents: registrations, heartbeats, leases, orders, and commands beside a task."""
