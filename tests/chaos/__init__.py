"""Real masters and agents under real faults, and many seeds of the simulations; `make chaos`."""
