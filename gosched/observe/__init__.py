"""What operators see: metrics and log lines, made from events. Rule: it reads, and decides nothing."""
