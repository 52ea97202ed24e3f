"""The reference of limits: what stands in core/limits.py, and the bounds of programs that users meet."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

from gosched.core import limits
from tools.docs.markdown import code, page, table
from tools.docs.models import duration_text
from tools.docs.texts import entries

_SOURCE = Path(limits.__file__)
_INTRO = """\
Everything that can grow has a bound. What goes beyond one is refused with the bound in its message, or drops the
oldest, and changes nothing else."""
_STATE = """\
These are constants of the replicated state, not settings: every master must have the same ones."""
_PROGRAMS = """\
These are constants of the programs. What can be set is among the settings of [masters](settings-master.md) and
[agents](settings-agent.md)."""


def limits_page() -> str:
    """Return the page. Raise Incomplete if a limit has no text."""
    known = [name for name in vars(limits) if name.isupper()]
    texts = entries("limits", known)
    state = [(texts[name], _value(name, getattr(limits, name)), code(name)) for name in known]
    others = entries("limits_of_programs", _known_of_programs())
    programs = [(text, _value(name, _of(name)), code(name.partition(":")[2])) for name, text in others.items()]
    head = ("what", "limit", "name")
    return page(
        "Limits",
        _INTRO,
        "## Of the state",
        _STATE,
        table(head, state),
        "## Of the programs",
        _PROGRAMS,
        table(head, programs),
    )


def _of(name: str) -> int:
    """Return the value of `gosched.module:NAME`."""
    module, _, constant = name.partition(":")
    value = getattr(import_module(module), constant)
    assert isinstance(value, int | float)
    return int(value)


def _known_of_programs() -> list[str]:
    """Return the names in the texts, which must exist; which bounds of programs users meet is for people to say."""
    found = re.findall(
        r"^(gosched[\w.]+:[A-Z_]+):", (Path(__file__).parent / "texts/limits_of_programs.yaml").read_text(), re.M
    )
    for name in found:
        _of(name)
    return found


def _value(name: str, value: int) -> str:
    if name.endswith("_MS"):
        return duration_text(value)
    for unit, size in (("TiB", 1 << 40), ("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if "BYTES" in name and value >= size:
            return f"{value / size:g} {unit}"
    power = value.bit_length() - 1
    return f"2^{power}" if value > 1 << 40 and value == 1 << power else f"{value:,}"
