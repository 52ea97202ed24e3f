"""The options of squeue, sinfo, scancel, sacct and scontrol, as tables like that of sbatch."""

from __future__ import annotations

from gosched.integrations.slurm.options import Verdict, rows

_HELP = ("help!", "")
_PLAIN = "the columns are chosen by -o"
_ONE = "there is one cluster: --context"

SQUEUE = (
    *rows(
        Verdict.SAME,
        ("o format", ""),
        ("h noheader!", ""),
        ("u user", ""),
        ("me!", ""),
        ("j jobs", ""),
        ("t states", ""),
        ("p partition", ""),
        ("A account", ""),
        ("n name", ""),
        ("l long!", ""),
        _HELP,
    ),
    *rows(Verdict.DIFFERENT, ("w nodelist", "jobs that run there now; a name that no node has lists nothing")),
    *rows(Verdict.IGNORED, ("a all!", "all queues are shown"), ("r array!", "each element has a line already")),
    *rows(
        Verdict.REFUSED,
        ("O Format", _PLAIN),
        ("S sort", "pipe the lines through sort"),
        ("i iterate", "goschedctl job list -w follows changes"),
        ("s steps?", "steps are known to their job alone"),
        ("start!", "goschedctl job list -o wide has the expected start"),
        ("q qos", "a QOS is a priority here, which has the letter Q"),
        ("M clusters", _ONE),
    ),
)

SINFO = (
    *rows(
        Verdict.SAME,
        ("o format", ""),
        ("h noheader!", ""),
        ("N Node!", ""),
        ("l long!", ""),
        ("n nodes", ""),
        ("t states", ""),
        _HELP,
    ),
    *rows(Verdict.IGNORED, ("a all!", "all nodes are shown"), ("e exact!", "nodes that differ have a line each")),
    *rows(
        Verdict.REFUSED,
        ("p partition", "queues share all nodes: goschedctl queue list shows them"),
        ("O Format", _PLAIN),
        ("S sort", "pipe the lines through sort"),
        ("i iterate", "goschedctl node list -w follows changes"),
        ("s summarize!", "goschedctl status"),
        ("R list-reasons!", "-o '%N %E' has the reasons"),
        ("T reservation!", "goschedctl reservation list"),
        ("M clusters", _ONE),
    ),
)

SCANCEL = (
    *rows(
        Verdict.SAME,
        ("u user", ""),
        ("me!", ""),
        ("t state", ""),
        ("p partition", ""),
        ("A account", ""),
        ("n name", ""),
        ("Q quiet!", ""),
        _HELP,
    ),
    *rows(
        Verdict.IGNORED,
        ("f full!", "script and steps are stopped together"),
        ("b batch!", "script and steps are stopped together"),
        ("v verbose!", "each job is named already"),
    ),
    *rows(
        Verdict.REFUSED,
        ("s signal", "goschedctl exec JOB -- kill sends a signal in a task"),
        ("i interactive!", "list the jobs by squeue first"),
        ("w nodelist", "goschedctl node drain NODE empties a node"),
        ("M clusters", _ONE),
    ),
)

SACCT = (
    *rows(
        Verdict.SAME,
        ("o format", ""),
        ("n noheader!", ""),
        ("j jobs", ""),
        ("u user", ""),
        ("a allusers!", ""),
        ("s state", ""),
        ("S starttime", ""),
        ("r partition", ""),
        ("A accounts", ""),
        ("name", ""),
        ("p parsable!", ""),
        ("P parsable2!", ""),
        ("delimiter", ""),
        ("b brief!", ""),
        ("X allocations!", ""),
        _HELP,
    ),
    *rows(Verdict.IGNORED, ("D duplicates!", "each job has one line"), ("L allclusters!", _ONE)),
    *rows(
        Verdict.REFUSED,
        ("E endtime", "-S alone bounds what is shown"),
        ("l long!", _PLAIN),
        ("N nodelist", "goschedctl events --node NODE"),
        ("M clusters", _ONE),
    ),
)

SCONTROL = (
    *rows(Verdict.SAME, ("o oneliner!", ""), _HELP),
    *rows(Verdict.IGNORED, ("a all!", "all is shown"), ("d details!", "there is no more"), ("Q quiet!", "")),
    *rows(Verdict.REFUSED, ("M clusters", _ONE)),
)
