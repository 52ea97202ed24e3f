"""Questions to the planner that commit nothing: explain on request, what-if, smallest change, deadline admission."""
