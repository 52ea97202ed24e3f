"""Control groups (cgroup v2): where the agent may make them, their tree, and the files of one."""
