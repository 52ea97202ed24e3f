"""docs/ARCHITECTURE.md against the tree: its tables name every module once, and every path in the documents exists."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/ARCHITECTURE.md"
ROOMS = (
    "core|integrations|logs|state_machine|scheduling|config|plugins|wire|replication|observe|client|identity|master"
    "|agent|cli|sim"
)
#: A path in backticks: below gosched, or from the repository's root.
NAMED = re.compile(rf"`((?:{ROOMS})/[\w./]+|(?:gosched|tests|docs|tools|proto|benchmarks|deploy|config)/[\w./-]+)`")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


def modules_in_the_tree() -> list[str]:
    """Return each module of gosched, such as `core/state`, without packages and generated code."""
    found = [path.relative_to(ROOT / "gosched").with_suffix("") for path in (ROOT / "gosched").rglob("*.py")]
    return [str(path) for path in found if path.name != "__init__" and "v1" not in path.parts]


def modules_in_the_tables(page: str) -> list[str]:
    """Return each module that the tables of the section "Modules" name: folder first, modules in the last column."""
    section = page.partition("\n## Modules\n")[2].partition("\n## ")[0]
    found = []
    for line in section.splitlines():
        if line.startswith("| `"):
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            folder = cells[0].strip("`").lstrip("/")
            found += [f"{folder}{name}" for name in re.findall(r"`([\w.]+)`", cells[-1])]
    return found


def differences(page: str) -> list[str]:
    """Return a line for each module that the tables lack, name twice, or name though it does not exist."""
    tree, tables = Counter(modules_in_the_tree()), Counter(modules_in_the_tables(page))
    return [
        *(f"{module} is in no table" for module in sorted(tree - tables)),
        *(
            f"{module} is named twice" if module in tree else f"{module} does not exist"
            for module in sorted(tables - tree)
        ),
    ]


def missing_paths(page: str) -> list[str]:
    """Return the paths that the page names and that do not exist."""
    named = {path.rstrip(".") for path in NAMED.findall(page)}
    return sorted(path for path in named if not (ROOT / path).exists() and not (ROOT / "gosched" / path).exists())


def test_the_tables_name_every_module_once() -> None:
    assert differences(PAGE.read_text()) == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_every_path_that_a_page_names_exists(path: Path) -> None:
    assert missing_paths(path.read_text()) == []


def test_a_module_that_is_missing_doubled_or_gone_is_seen() -> None:
    page = PAGE.read_text()
    module = "`free_capacity`"
    assert page.count(module) == 1
    assert differences(page.replace(module, "`gone`")) == [
        "scheduling/placement/free_capacity is in no table",
        "scheduling/placement/gone does not exist",
    ]
    assert differences(page.replace(module, f"{module}, {module}")) == [
        "scheduling/placement/free_capacity is named twice"
    ]
    assert missing_paths("in `core/nothing.py` and `tests/nowhere/`") == ["core/nothing.py", "tests/nowhere/"]
