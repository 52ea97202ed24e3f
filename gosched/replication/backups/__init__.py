"""New clusters made of a backup or of one master's directory, and reading a log offline."""
