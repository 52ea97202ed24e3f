"""The simulated replicated log (`gosched.sim.raft`): a few seeds of each profile, and that a mutated rule is caught."""
