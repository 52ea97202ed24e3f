"""What has happened: each master derives it from the log that it applies, and keeps it beside the replicated state."""
