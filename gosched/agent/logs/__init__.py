"""The logs of tasks that have ended: how long they are kept, and their copies in an archive."""
