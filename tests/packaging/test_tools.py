"""The programs of `tools`, which no other test starts, import what there is."""

from __future__ import annotations

import ast
import importlib
import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted((ROOT / "tools").rglob("*.py"))


def missing(source: str) -> list[str]:
    """Return what a program imports from gosched by a name that is not there."""
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.ImportFrom)]
    return [
        f"{node.module}.{alias.name}"
        for node in found
        if node.level == 0 and (node.module or "").split(".")[0] == "gosched"
        for alias in node.names
        if not hasattr(importlib.import_module(str(node.module)), alias.name)
        and importlib.util.find_spec(f"{node.module}.{alias.name}") is None
    ]


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_each_name_that_a_tool_imports_is_there(program: Path) -> None:
    assert missing(program.read_text()) == []


def test_a_name_that_is_gone_is_seen() -> None:
    assert missing("from gosched.api.json import status, gone\n") == ["gosched.api.json.gone"]
