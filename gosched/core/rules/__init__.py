"""What jobs, queues and quotas may say: pure checks of records, used by the state machine and by config alike."""
