"""The simulated cluster (`gosched.sim.cluster`): traces in, the same report out."""
