"""HTTP of a master: the server, its bounds, and the routes of REST, one module per noun."""
