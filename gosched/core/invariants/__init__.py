"""What holds for every state, checked in tests and simulations."""
