"""An archive of the logs of ended tasks, in a shared directory or an object store: agents write it, masters read it."""
