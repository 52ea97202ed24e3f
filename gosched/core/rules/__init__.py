"""What jobs, queues and quotas may say: pure checks of records, used by the state machine, job files and queue configs."""
