"""The locks of the images are parts of the one lock, and each names all that its kind of installation needs."""

from __future__ import annotations

import re
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
EXTRAS = {"client": "", "master": "master", "agent": "agent"}


def locked(path: Path) -> dict[str, frozenset[str]]:
    """Return each pinned requirement, such as `click==8.1`, and the SHA-256 of its files."""
    entries = re.split(r"\n(?=\S)", path.read_text().replace("\\\n", " ").strip())
    return {entry.split(" ")[0]: frozenset(re.findall(r"--hash=sha256:(\w+)", entry)) for entry in entries}


def needed(name: str, extra: str, seen: set[str]) -> set[str]:
    """Return the names of the distributions that `name[extra]` needs on this machine, without `gosched` itself."""
    for line in requires(name) or []:
        requirement = Requirement(line)
        if requirement.marker is None or requirement.marker.evaluate({"extra": extra}):
            other = canonicalize_name(requirement.name)
            if other not in seen:
                seen.add(other)
                needed(other, "", seen)
    return seen


@pytest.mark.parametrize("kind", EXTRAS)
def test_the_lock_of_a_kind_of_installation_is_a_part_of_the_lock(kind: str) -> None:
    whole, part = locked(ROOT / "requirements.lock"), locked(ROOT / f"requirements/{kind}.lock")
    assert all(part.values())
    assert part.items() <= whole.items()


@pytest.mark.parametrize("kind", EXTRAS)
def test_the_lock_of_a_kind_of_installation_names_all_that_it_needs(kind: str) -> None:
    names = {entry.partition("==")[0] for entry in locked(ROOT / f"requirements/{kind}.lock")}
    assert needed("gosched", EXTRAS[kind], set()) <= names
