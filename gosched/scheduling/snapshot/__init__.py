"""What the planner sees: nodes and held capacity as columns, waiting gangs as records, kept up to date by events."""
