"""What this machine has, and how it does: CPUs, memory, GPUs, disks."""
