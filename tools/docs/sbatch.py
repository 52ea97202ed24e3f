"""The reference of sbatch and srun: each option, by `gosched/integrations/slurm/options.py`."""

from __future__ import annotations

from gosched.integrations.slurm.options import SALLOC, SBATCH, SRUN, Option, Verdict, verdicts
from gosched.integrations.slurm.query_options import SACCT, SCANCEL, SCONTROL, SINFO, SQUEUE
from tools.docs.markdown import code, page, table

_INTRO = """\
Options that `goschedctl sbatch` reads on its command line and in `#SBATCH` lines, those of `srun` in a script, and
those of the commands that show jobs and nodes; what they do is in [Slurm scripts](../guides/slurm-scripts.md). An
option that is in no table is an error."""
_TABLES = {
    "sbatch": SBATCH,
    "salloc": SALLOC,
    "srun": SRUN,
    "squeue": SQUEUE,
    "sinfo": SINFO,
    "scancel": SCANCEL,
    "sacct": SACCT,
    "scontrol": SCONTROL,
}
_TITLES = {
    Verdict.SAME: ("The same as in Slurm", ""),
    Verdict.DIFFERENT: ("Different", ""),
    Verdict.IGNORED: ("Without effect", "A line on stderr says so; the script runs."),
    Verdict.REFUSED: ("Refused", "The command ends with an error that names the option and its line."),
}


def sbatch() -> str:
    """Return the page."""
    parts = [part for name, options in _TABLES.items() for part in _parts(name, options)]
    return page("Slurm's commands", _INTRO, *parts)


def _parts(name: str, options: tuple[Option, ...]) -> list[str]:
    found = [f"## {name}"]
    for verdict, of_it in verdicts(options).items():
        if not of_it:
            continue
        title, words = _TITLES[verdict]
        found += [f"### {title} ({name})", *([words] if words else [])]
        if verdict is Verdict.SAME:
            found.append(", ".join(_names(option) for option in of_it) + ".")
        else:
            head = "what it does here" if verdict is Verdict.DIFFERENT else "why"
            found.append(table(("option", head), [(_names(option), option.note) for option in of_it]))
    return found


def _names(option: Option) -> str:
    letter = f"{code(f'-{option.short}')} " if option.short else ""
    return f"{letter}{code(f'--{option.name}')}"
