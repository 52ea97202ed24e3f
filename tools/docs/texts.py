"""What people wrote for the generated pages, in texts/*.yaml, checked against what the code has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import yaml

from gosched.core import limits

FOLDER = Path(__file__).parent / "texts"


class Incomplete(Exception):
    """The code has something that no text describes, or a text describes what is gone."""


def entries(name: str, known: Iterable[str]) -> Mapping[str, Any]:
    """Return the texts of a file. Raise Incomplete unless it describes all that is known, and nothing else."""
    path = FOLDER / f"{name}.yaml"
    found = yaml.safe_load(path.read_text())
    lacking = [one for one in known if one not in found]
    gone = [one for one in found if one not in frozenset(known)]
    problems = [f"{one}: has no text" for one in lacking] + [f"{one}: is not in the code" for one in gone]
    if problems:
        raise Incomplete(f"tools/docs/texts/{path.name}: " + "; ".join(problems))
    return dict(found)


def filled(text: str) -> str:
    """Return a text with the bounds of core/limits.py in place of their names."""
    for name, value in vars(limits).items():
        if name.isupper():
            text = text.replace(f"{{{name}}}", f"{value:,}")
    return text
