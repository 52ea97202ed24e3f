"""Bounds of the replicated state. Constants, not settings: every replica must hold the same ones."""

MAX_NAME_LENGTH = 253
MAX_TASKS_PER_JOB = 20_000
MAX_GROUPS_PER_JOB = 64
MAX_SPEC_BYTES = 256 * 1024
MAX_LIVE_JOBS = 1_000_000
MAX_NODES = 100_000
MAX_QUEUES = 10_000
MAX_TENANTS = 10_000
MAX_TENANTS_PER_QUEUE = 1000
MAX_CUSTOM_RESOURCES = 16  # of one task or node
MAX_RULES = 64  # of one kind: affinity, tolerations, taints, topology, of one task group or node
MAX_VALUES = 1000  # of one affinity term
MAX_CPUS = 8192  # of one node whose CPUs are named
MAX_GPUS = 1024  # of one node
MAX_MASTERS = 64
MAX_CLIENTS_REMEMBERED = 1024
MAX_ANSWERS_PER_CLIENT = 1024
MAX_TASKS = 4_000_000  # of all jobs, the finished ones that are still kept included
MAX_TASKS_DROPPED_AT_ONCE = 20_000
MAX_AMOUNT = 1 << 52  # of one resource, for one task or one node
MAX_JOB_DEMAND = 1 << 62  # of one resource, for all tasks of a job
MAX_PRIORITY = 1000
MAX_DETAIL_LENGTH = 1024
MAX_DURATION_MS = 366 * 24 * 3600 * 1000
MAX_BACKOFF_MS = 10 * 60 * 1000
MAX_FREE_RESTARTS = 100  # restarts that a job is not to blame for
