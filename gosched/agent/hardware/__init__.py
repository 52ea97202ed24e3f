"""What this host has, and its state: CPUs, memory, GPUs, disks."""
