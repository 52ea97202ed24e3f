"""Records that the state is made of, one file per noun."""
