"""gosched's own code on a virtual clock, with faults drawn from a seed. One seed is one run, on every machine."""
