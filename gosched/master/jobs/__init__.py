"""Jobs as users meet them: admission, schedules, views, logs, and why a job is not planned."""
