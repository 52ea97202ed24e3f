"""The future: what is released when, which starts are reserved, and what each gang may use without delaying them."""
