"""What every part of a master stands on: errors, ids, clocks, channels, leadership, proposals."""
