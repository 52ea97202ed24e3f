"""A real Kubernetes on one machine, for the tests: built from its Go modules, started and ended in seconds."""
