"""Job files: the models of their keys, and their conversion to records."""
