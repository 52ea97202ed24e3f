"""Where a gang runs: free capacity, feasible nodes, scores, topology domains. A gang is placed whole or not at all."""
