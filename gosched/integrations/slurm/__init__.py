"""Slurm's command line on gosched: options, values, shapes, names of nodes, variables; nothing of it needs Slurm."""
