"""Where a gang runs: free capacity, feasible nodes, scores, topology domains; a gang is placed whole or not at all."""
