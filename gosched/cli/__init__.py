"""goschedctl: one file per noun; heavy imports only inside commands."""
