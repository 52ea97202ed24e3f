"""Values of Slurm's options: times, amounts, arrays, dependencies, signals. Each reader raises ValueError, in words for
people."""

from __future__ import annotations

import re
from dataclasses import dataclass
from signal import Signals

MAX_INDEXES = 10_000  # of an array that is written as a list

_NEVER = ("unlimited", "infinite", "-1", "0")
_DAYS = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d+))?(?::(\d+))?", re.ASCII)
_MEMORY = re.compile(r"(\d+)([KMGT]?)B?", re.ASCII | re.IGNORECASE)
_MEBI = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024 * 1024}
_CONDITIONS = {"afterok": "success", "afternotok": "failure", "afterany": "any"}
_INDEXES = re.compile(r"(\d{1,9})(?:-(\d{1,9})(?::(\d{1,9}))?)?", re.ASCII)
_SIGNAL = re.compile(r"(?:([BR]):)?([A-Za-z0-9]+)(?:@(\d{1,5}))?", re.ASCII)
_SIGNAL_BEFORE_S = 60


def seconds(text: str) -> int:
    """Return a time limit in seconds; 0: none. `90` are minutes."""
    if text.strip().lower() in _NEVER:
        return 0
    found = _DAYS.fullmatch(text.strip())
    if not found:
        raise ValueError(f"expected minutes, MM:SS, HH:MM:SS, or D-HH with :MM and :SS, got {text!r}")
    days, first, second, third = (None if part is None else int(part) for part in found.groups())
    assert first is not None
    if days is not None:
        return days * 86_400 + first * 3600 + (second or 0) * 60 + (third or 0)
    if third is not None:
        return first * 3600 + (second or 0) * 60 + third
    return first * 60 + (second or 0)


def mebibytes(text: str) -> int:
    """Return memory in MiB, which is the unit where none is written."""
    found = _MEMORY.fullmatch(text.strip())
    if not found:
        raise ValueError(f"expected a number with K, M, G or T, got {text!r}")
    amount = int(found[1]) * _MEBI[found[2].upper()]
    if not amount:
        raise ValueError("0 stands for all memory of a node, which cannot be asked for: say how much")
    return max(1, round(amount))


def number(text: str) -> int:
    """Return a whole number above 0."""
    if not (text.isascii() and text.isdigit() and len(text) < 8 and int(text)):
        raise ValueError(f"expected a number above 0, got {text!r}")
    return int(text)


def node_count(text: str) -> tuple[int, int]:
    """Return the least and the most nodes."""
    least, dash, most = text.partition("-")
    low = number(least)
    high = number(most) if dash else low
    if high < low:
        raise ValueError(f"expected the lower number first, got {text!r}")
    return low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class Array:
    """An array as Slurm writes it."""

    first: int
    last: int
    #: Between two indexes of a range.
    step: int
    count: int
    #: The indexes, ascending; empty: it is a range.
    listed: tuple[int, ...] = ()
    #: How many live at once; 0: any number.
    parallelism: int


def array(text: str) -> Array:
    """Return an array such as `0-9`, `1-7:2`, `1,3,5-7%2`."""
    body, percent, most = text.strip().partition("%")
    parallelism = number(most) if percent else 0
    ranges = [_indexes(part) for part in body.split(",")]
    if len(ranges) == 1:
        (only,) = ranges
        return Array(first=only[0], last=only[-1], step=only.step, count=len(only), parallelism=parallelism)
    if sum(map(len, ranges)) > MAX_INDEXES:
        raise ValueError(f"a list of more than {MAX_INDEXES} indexes: write one range")
    listed = tuple(sorted({index for indexes in ranges for index in indexes}))
    return Array(first=listed[0], last=listed[-1], step=1, count=len(listed), listed=listed, parallelism=parallelism)


def _indexes(text: str) -> range:
    found = _INDEXES.fullmatch(text)
    if not found:
        raise ValueError(f"expected indexes such as 0-9, 1-7:2 or 1,3,5 (%2 for two at once), got {text!r}")
    first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
    if last < first or not step:
        raise ValueError(f"{text!r} has no index: write the lower number first, and a step of 1 at least")
    return range(first, last + 1, step)


def dependencies(text: str) -> dict[str, str]:
    """Return the condition of each job that must end first."""
    if "?" in text:
        raise ValueError("one of several (?) cannot be said: a job waits for all of its dependencies")
    found: dict[str, str] = {}
    for part in text.split(","):
        kind, colon, jobs = part.strip().partition(":")
        if kind not in _CONDITIONS:
            known = ", ".join(_CONDITIONS)
            raise ValueError(f"{kind!r} is none of {known}, which gosched waits for")
        if not colon or not all(jobs.split(":")):
            raise ValueError(f"expected {kind}:JOB, with more jobs behind further colons, got {part!r}")
        for job in map(job_id, jobs.split(":")):
            if found.setdefault(job, _CONDITIONS[kind]) != _CONDITIONS[kind]:
                raise ValueError(f"a job waits for {job} in one way, not for {found[job]} and {_CONDITIONS[kind]}")
    return found


def job_id(text: str) -> str:
    """Return gosched's id of a job; that of an array's element may be written as JOB_INDEX."""
    array_job, underscore, element = text.rpartition("_")
    return f"{array_job}.{element}" if underscore and array_job.startswith("j-") and element.isdigit() else text


@dataclass(frozen=True, slots=True, kw_only=True)
class Warning:
    """A signal before the time limit."""

    number: int
    #: Before the limit.
    seconds: int
    #: To the script alone, not to the ranks of its steps.
    to_script: bool


def warning_signal(text: str) -> Warning:
    """Return the signal of `[B:]SIGNAL[@SECONDS]`."""
    found = _SIGNAL.fullmatch(text.strip())
    if not found:
        raise ValueError(f"expected a signal such as USR1@120, or B:USR1@120 for the script, got {text!r}")
    if found[1] == "R":
        raise ValueError("R: (signals for reservations) has no counterpart here")
    word = found[2].upper()
    known = {known.name.removeprefix("SIG"): int(known) for known in Signals}
    value = int(word) if word.isdigit() else known.get(word.removeprefix("SIG"), 0)
    if value not in known.values():
        raise ValueError(f"{found[2]!r} is no signal")
    return Warning(number=value, seconds=int(found[3] or _SIGNAL_BEFORE_S), to_script=found[1] == "B")


def gpus(text: str) -> tuple[str, int]:
    """Return the model, which may be empty, and the number of `2`, `h100` or `h100:2`."""
    model, colon, count = text.rpartition(":")
    if not colon and not text.isdigit():
        return text, 1
    return model, number(count)


def gres(text: str) -> tuple[tuple[str, int] | None, dict[str, int]]:
    """Return the GPUs, model and number, and other resources by name; None: no GPU."""
    found: tuple[str, int] | None = None
    others: dict[str, int] = {}
    for part in text.split(","):
        kind, _, rest = part.removeprefix("gres:").removeprefix("gres/").partition(":")
        if kind == "none":
            continue
        if kind == "gpu":
            if found is not None:
                raise ValueError("two kinds of GPU in one job: ask for one")
            found = gpus(rest) if rest else ("", 1)
        elif kind in ("mps", "shard"):
            raise ValueError(f"{kind}: a part of a GPU is in a job file as resources.gpu: 0.5")
        else:
            others[kind] = number(rest) if rest else 1
    return found, others
