"""Other schedulers, from here: each in a package of its own, which nothing imports before it is used."""
