"""The locks of the images are parts of the one lock, and each names all that its kind of installation needs."""

from __future__ import annotations

import re
from importlib.metadata import requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
EXTRAS = {"client": "", "master": "master", "agent": "agent", "kubernetes": "kubernetes"}


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


@pytest.mark.parametrize("lock", ["requirements.lock", *(f"requirements/{kind}.lock" for kind in EXTRAS)])
def test_each_entry_of_a_lock_is_one_version_with_hashes(lock: str) -> None:
    entries = locked(ROOT / lock)
    assert len(entries) > 5
    assert [entry for entry in entries if not re.fullmatch(r"[a-z0-9-]+==[\w.+!]+", entry)] == []
    assert [entry for entry, hashes in entries.items() if not all(len(each) == 64 for each in hashes)] == []
    assert all(entries.values())


def test_what_a_lock_names_is_installed_with_its_hashes_alone() -> None:
    """pip checks the hashes it finds, too, without the flag; with it an entry without one is refused."""
    text = "\n".join((ROOT / name).read_text() for name in ("Makefile", "Dockerfile", "tools/deb.sh"))
    commands = re.split(r"\n|&&|;", text.replace("\\\n", " "))
    installs = [
        each for each in commands if re.search(r"pip (install|wheel)\b.* (-r|--requirement) |^into .*\.lock", each)
    ]
    assert len(installs) == 4
    assert [each for each in installs if "--require-hashes" not in each] == []


@pytest.mark.parametrize("kind", EXTRAS)
def test_the_lock_of_a_kind_of_installation_names_all_that_it_needs(kind: str) -> None:
    names = {entry.partition("==")[0] for entry in locked(ROOT / f"requirements/{kind}.lock")}
    assert needed("gosched", EXTRAS[kind], set()) <= names
