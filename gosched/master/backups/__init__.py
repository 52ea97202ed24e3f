"""Backups: made on request or by schedule, and restored into a new cluster."""
