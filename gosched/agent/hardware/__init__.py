"""What this host has, and how it does: CPUs, memory, GPUs, disks."""
