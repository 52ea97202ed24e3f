"""`concurrent.futures` on the cluster: `GoSchedExecutor`."""
