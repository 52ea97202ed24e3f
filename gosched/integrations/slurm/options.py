"""Every option of sbatch and srun (Slurm 22.05), and what gosched makes of it: the one table.

Invariant: an option that is in no row is an error, and no row is silently without effect: REFUSED ends with its reason,
IGNORED warns with it. The page docs/guides/sbatch.md is checked against this table.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Verdict(Enum):
    SAME = "same"
    DIFFERENT = "different"
    #: It changes nothing here, and a line on stderr says so.
    IGNORED = "no effect"
    REFUSED = "refused"


class Takes(Enum):
    NOTHING = 0
    VALUE = 1
    #: Only with an equals sign, or right behind the letter.
    OPTIONAL = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option."""

    #: Without the dashes.
    name: str
    #: Its letter; empty: it has none.
    short: str = ""
    takes: Takes = Takes.VALUE
    verdict: Verdict
    #: What is different, or why it is refused; empty where it is the same.
    note: str = ""


def rows(verdict: Verdict, *rows: tuple[str, str]) -> tuple[Option, ...]:
    """Return the options of rows such as `n ntasks` (a value), `H hold!` (none), `nice?` (optional), each with a
    note."""
    found = []
    for words, note in rows:
        *letter, name = words.split()
        takes = {"!": Takes.NOTHING, "?": Takes.OPTIONAL}.get(name[-1], Takes.VALUE)
        option = Option(name=name.rstrip("!?"), short="".join(letter), takes=takes, verdict=verdict, note=note)
        found.append(option)
    return tuple(found)


_SOCKETS = "gosched places tasks by CPUs: --cpus-per-task says how many each has"
_PLACES = "nodes are chosen by --constraint, --nodelist and --exclude"
_OUTSIDE = "gosched has nothing of the kind"

SBATCH = (
    *rows(
        Verdict.SAME,
        ("N nodes", ""),
        ("ntasks-per-node", ""),
        ("c cpus-per-task", ""),
        ("mem-per-cpu", ""),
        ("gpus-per-node", ""),
        ("gpus-per-task", ""),
        ("t time", ""),
        ("a array", ""),
        ("o output", ""),
        ("e error", ""),
        ("open-mode", ""),
        ("D chdir", ""),
        ("H hold!", ""),
        ("wrap", ""),
        ("parsable!", ""),
        ("W wait!", ""),
        ("Q quiet!", ""),
        ("no-requeue!", ""),
        ("comment", ""),
        ("help!", ""),
        ("usage!", ""),
        ("V version!", ""),
    ),
    *rows(
        Verdict.DIFFERENT,
        ("J job-name", "names of live jobs are unique: gosched's has six digits behind it"),
        ("n ntasks", "without --nodes each task has a cgroup of its own; with it, those of a node share one"),
        ("mem", "without --nodes each of several tasks has its even part"),
        ("gres", "gpu, and resources of your own (fpga:2); without --nodes for one task alone"),
        ("G gpus", "must divide evenly over the nodes, without --nodes over the tasks"),
        ("d dependency", "afterok, afternotok, afterany, all of them; a job that can never start is cancelled"),
        ("p partition", "one queue, by its path"),
        ("A account", "the tenant"),
        ("q qos", "low, normal or high: the priority"),
        ("C constraint", "FEATURE is a label of that name, KEY=VALUE one of that value; all of them (&, or a comma)"),
        ("w nodelist", "these nodes and no others: as many as --nodes says, 1000 at most"),
        ("x exclude", "1000 nodes at most; a job with no node left waits"),
        (
            "exclusive?",
            "all CPUs of each node, if the nodes that the job may get all have as many at submission; --ntasks alone "
            "takes as many nodes as have the CPUs for its tasks; GPUs and memory are those asked for; a task that asks "
            "for no CPU may share the node; a node that joins later is not used if it is smaller, and shared if it is "
            "larger; =user, =mcs and =topo are refused",
        ),
        ("requeue!", "after a lost node and a preemption, three times at most; this is so without it, too"),
        ("signal", "counted from the start of the script, which is a moment after that of the time limit"),
        ("export", "ALL leaves out HOME, USER and what belongs to a login; NONE does not load a login's environment"),
        (
            "b begin",
            "the forms of Slurm's manual, by this machine's clock; a date and a time as YYYY-MM-DDTHH:MM alone",
        ),
        ("test-only!", "shows the job file that would be submitted"),
        ("priority", "0 to 1000"),
    ),
    *rows(
        Verdict.IGNORED,
        ("hint", "CPUs are assigned by the node's agent"),
        ("mem-bind", "memory is assigned by the node's agent"),
        ("gpu-bind", "a task sees its own GPUs alone"),
        ("gres-flags", "GPUs are chosen near each other already"),
        ("ntasks-per-core", "CPUs are what the agent counts as one"),
        ("threads-per-core", "CPUs are what the agent counts as one"),
        ("acctg-freq", "usage is sampled at the agent's own pace"),
        ("profile", "usage is sampled at the agent's own pace"),
        ("get-user-env?", "the environment is that of the submission"),
        ("k no-kill?", "a job whose node is lost starts again"),
        ("kill-on-invalid-dep", "it is always so"),
        ("use-min-nodes!", "few nodes are preferred already"),
        ("wait-all-nodes", "a job starts when all of its nodes are there"),
        ("v verbose!", "errors say all there is to say"),
        ("propagate?", "limits are those of the node; a job file has rlimits"),
        ("s oversubscribe!", "CPUs are shared below a whole one alone"),
        ("ignore-pbs!", "lines of #PBS are never read"),
        ("delay-boot", "nodes are not booted for a job"),
        ("power", "nodes are not booted for a job"),
        ("time-min", "a time limit is not shortened"),
        ("nice?", "use --qos"),
        ("spread-job!", "without --nodes the tasks are placed together"),
    ),
    *rows(
        Verdict.REFUSED,
        ("mail-type", "gosched sends no mail: follow goschedctl events -w, or leave the line out"),
        ("mail-user", "gosched sends no mail: leave the line out"),
        ("F nodefile", _PLACES),
        ("batch", _PLACES),
        ("prefer", _PLACES),
        ("cluster-constraint", "a job is submitted to one cluster: --context"),
        ("M clusters", "a job is submitted to one cluster: --context"),
        ("deadline", "a job file has deadline: goschedctl submit"),
        ("switches", "a job file has placement.topology: goschedctl submit"),
        ("contiguous!", "a job file has placement.topology: goschedctl submit"),
        ("reservation", "a window of nodes takes the jobs of its queues by itself: --partition"),
        ("L licenses", "make it a resource of nodes, and ask for it with --gres"),
        ("container", "a job file has image: goschedctl submit"),
        ("cpus-per-gpu", "say --cpus-per-task"),
        ("mem-per-gpu", "say --mem or --mem-per-cpu"),
        ("ntasks-per-gpu", "say --ntasks and --gpus-per-task"),
        ("gpus-per-socket", "say --gpus-per-node"),
        ("tmp", "a job file has resources.storage: goschedctl submit"),
        ("mincpus", _SOCKETS),
        ("B extra-node-info", _SOCKETS),
        ("cores-per-socket", _SOCKETS),
        ("sockets-per-node", _SOCKETS),
        ("ntasks-per-socket", _SOCKETS),
        ("S core-spec", _SOCKETS),
        ("thread-spec", _SOCKETS),
        ("O overcommit!", _SOCKETS),
        ("i input", "a script has no input: read the file in the script"),
        ("export-file", "set the variables in the script"),
        ("uid", "the user is whom the client's certificate names"),
        ("gid", "the user is whom the client's certificate names"),
        ("mcs-label", _OUTSIDE),
        ("bb", _OUTSIDE),
        ("bbf", _OUTSIDE),
        ("cpu-freq", _OUTSIDE),
        ("gpu-freq", _OUTSIDE),
        ("network", _OUTSIDE),
        ("reboot!", _OUTSIDE),
        ("wckey", _OUTSIDE),
    ),
)

_OF_SCRIPTS = frozenset(
    {"array", "batch", "error", "export", "export-file", "get-user-env", "ignore-pbs", "input", "no-requeue"}
    | {"open-mode", "output", "parsable", "propagate", "requeue", "signal", "test-only", "wait", "wrap"}
)
#: Of salloc: as sbatch's, without what is of scripts.
SALLOC = (
    *(option for option in SBATCH if option.name not in _OF_SCRIPTS),
    *rows(
        Verdict.IGNORED,
        ("bell!", "no bell is rung"),
        ("no-bell!", "no bell is rung"),
        ("K kill-command?", "the command always ends with its allocation"),
    ),
    *rows(
        Verdict.REFUSED,
        ("no-shell!", "an allocation lasts as long as its command: goschedctl sbatch needs no terminal"),
        ("I immediate?", "goschedctl plan says whether a job would start now"),
        ("signal", "let the command watch its time, or submit a script with sbatch"),
        ("x11?", "no windows are passed on"),
    ),
)

#: Of srun inside of a job: a step.
SRUN = (
    *rows(
        Verdict.SAME,
        ("n ntasks", ""),
        ("N nodes", ""),
        ("ntasks-per-node", ""),
        ("c cpus-per-task", ""),
        ("w nodelist", ""),
        ("r relative", ""),
        ("l label!", ""),
        ("o output", ""),
        ("e error", ""),
        ("D chdir", ""),
        ("K kill-on-bad-exit?", ""),
        ("overlap!", ""),
        ("exact!", ""),
        ("export", ""),
        ("Q quiet!", ""),
        ("J job-name", ""),
        ("u unbuffered!", ""),
    ),
    *rows(
        Verdict.DIFFERENT,
        ("exclusive?", "every step waits for as many free tasks as it has; with --overlap it does not"),
        ("i input", "all, none, the number of a rank, or one file for all; the program of an MPI has no input"),
        ("mpi", "none, or openmpi and mpich by their own mpiexec; a program that is linked with one needs no option"),
    ),
    *rows(
        Verdict.IGNORED,
        ("cpu-bind", "the ranks of a task share its CPUs"),
        ("mem", "a step has the memory of its job"),
        ("mem-per-cpu", "a step has the memory of its job"),
        ("gres", "a step has the GPUs of its job"),
        ("G gpus", "a step has the GPUs of its job"),
        ("gpus-per-task", "a step has the GPUs of its job"),
        ("gpus-per-node", "a step has the GPUs of its job"),
        ("hint", "CPUs are assigned by the node's agent"),
        ("distribution", "ranks are numbered node by node"),
        ("t time", "the job's limit holds"),
        ("W wait", "the step ends with its last rank"),
        ("X disable-status!", "a signal is passed on to the ranks"),
        ("v verbose!", "errors say all there is to say"),
        ("mem-bind", "memory is assigned by the node's agent"),
        ("gpu-bind", "a task sees its own GPUs alone"),
        ("threads-per-core", "CPUs are what the agent counts as one"),
    ),
    *rows(
        Verdict.REFUSED,
        ("pty!", "goschedctl exec JOB -it -- bash opens a terminal in a task"),
        ("multi-prog!", "let the program choose by $SLURM_PROCID"),
        ("jobid", "a step belongs to the job whose script starts it"),
        ("het-group", "a job has one part"),
        ("bcast?", "copy the file in a step of its own"),
        ("p partition", "the job has its queue already: this is of sbatch"),
        ("A account", "the job has its tenant already: this is of sbatch"),
    ),
)


def verdicts(table: tuple[Option, ...]) -> dict[Verdict, list[Option]]:
    """Return the options of each verdict, in the order of the table."""
    return {verdict: [option for option in table if option.verdict is verdict] for verdict in Verdict}
