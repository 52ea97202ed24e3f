"""What the API answers with: frozen records, and the JSON of them. Masters fill them, clients read them."""
