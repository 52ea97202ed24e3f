"""What a cycle may do with a gang: start it, evict others for it, repair it, reserve its start, explain its wait."""
