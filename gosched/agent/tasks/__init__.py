"""Tasks of this node, from the order to the removal of what they left."""
