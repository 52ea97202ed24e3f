"""Other systems: what gosched does with them. Each package here is light until it is used."""
