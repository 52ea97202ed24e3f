"""Starts the ranks of an MPI program inside the tasks of its job, by the MPI that the program is made for.

Each task runs a member (`task`) in place of the job's command. The members meet at the job's port on the node of the
first task, whose head starts mpiexec once all are there. Where mpiexec would log in to another node, it runs our
`launch_agent`; the head passes its command on to the member of that task, which starts MPI's daemon. The daemon starts
our `rank`, which runs the job's command with the task's own output, and says how it ended.

    head: mpiexec -> launch_agent -> head -> member -> MPI's daemon -> rank -> the job's command

Invariant: standard library only, and these modules import only each other: they run as the task's user, within its
limits, on any node.
"""
