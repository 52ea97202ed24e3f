"""The ways to run a task: as a process, on a root filesystem, in a Docker container, as a part of Spark."""
