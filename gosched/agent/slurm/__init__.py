"""Batch scripts of Slurm's users in tasks: the script in the first one, and the ranks of its steps in all of them."""
