"""What is asked of each service: functions that return calls, pages and streams, and neither send nor wait."""
