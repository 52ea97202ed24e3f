"""The state of the cluster: tables of records, indexes derived from them, its digest and its size."""
