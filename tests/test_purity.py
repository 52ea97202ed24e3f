"""The core and the state machine are pure: no clock, no chance, no I/O, no log line, no float, no order of a set."""

import ast
from pathlib import Path

import pytest

import gosched

ROOT = Path(gosched.__file__).parent
FILES = sorted([*(ROOT / "core").rglob("*.py"), *(ROOT / "state_machine").rglob("*.py")])

ALLOWED_IMPORTS = {
    "__future__",
    "base64",
    "bisect",
    "collections",
    "collections.abc",
    "dataclasses",
    "enum",
    "fnmatch",
    "functools",
    "hashlib",
    "heapq",
    "ipaddress",
    "itertools",
    "json",
    "math",  # for isqrt: the check of numbers and division finds what is not whole
    "operator",
    "re",
    "typing",
}
BANNED_CALLS = {
    "hash": "differs with PYTHONHASHSEED",
    "id": "is an address",
    "set": "has no order",
    "frozenset": "has no order",
    "float": "is not exact",
    "open": "is I/O",
    "print": "is I/O",
    "input": "is I/O",
    "exec": "hides what it does",
    "eval": "hides what it does",
    "__import__": "hides an import",
    "repr": "may hold an address",
    "vars": "hides what it does",
}


def impurities(source: str) -> list[str]:
    """What is not allowed in pure code, a line each."""
    return [f"line {node.lineno}: {why}" for node in ast.walk(ast.parse(source)) for why in _why(node)]  # type: ignore[attr-defined]


def _why(node: ast.AST) -> list[str]:
    match node:
        case ast.Import(names=names):
            return [f"imports {a.name}" for a in names if not _may_import(a.name)]
        case ast.ImportFrom(module=module, level=level) if level or not _may_import(module or ""):
            return [f"imports from {module}"]
        case ast.Constant(value=float() | complex()):
            return ["a number that is not an integer"]
        case ast.BinOp(op=ast.Div()) | ast.AugAssign(op=ast.Div()):
            return ["true division gives a float"]
        case ast.Set() | ast.SetComp():
            return ["a set has no order"]
        case ast.Name(id=name, ctx=ast.Load()) if name in BANNED_CALLS:
            return [f"{name} {BANNED_CALLS[name]}"]
        case ast.AsyncFunctionDef() | ast.Await() | ast.Global():
            return ["waits, or keeps a state of its own"]
    return []


def _may_import(module: str) -> bool:
    return module in ALLOWED_IMPORTS or module.split(".")[:2] in (["gosched", "core"], ["gosched", "state_machine"])


EXCEPTIONS = {
    "core/state/footprint.py": "id",  # a cache in front of a look-up by content: what is found is the same
    "core/replace.py": "exec",  # writes functions as `dataclasses` does
}


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_pure_code_stays_pure(path):
    excepted = EXCEPTIONS.get(str(path.relative_to(ROOT)), "")
    found = impurities(path.read_text())
    assert [line for line in found if not excepted or not line.endswith(f"{excepted} {BANNED_CALLS[excepted]}")] == []


def test_the_state_machine_and_the_records_are_looked_at():
    names = {str(p.relative_to(ROOT)) for p in FILES}
    assert {
        "core/state/cluster_state.py",
        "core/records/job.py",
        "state_machine/apply.py",
        "state_machine/plans.py",
    } <= names


@pytest.mark.parametrize(
    "impure",
    [
        "import time",
        "import random",
        "import os.path",
        "import logging",
        "import uuid",
        "from datetime import datetime",
        "from socket import socket",
        "from pathlib import Path",
        "from gosched.wire.batch import Batch",
        "from . import jobs",
        "import structlog",
        "x = 0.5",
        "x = 1e3",
        "x = a / b",
        "x /= 2",
        "x = {1, 2}",
        "x = {a for a in b}",
        "for a in set(b): pass",
        "x = frozenset(b)",
        "x: dict = field(default_factory=set)",
        "x = hash(a)",
        "x = sorted(a, key=id)",
        "x = float(a)",
        "open('f')",
        "print(a)",
        "x = eval('1')",
        "x = __import__('time')",
        "async def f(): pass",
        "def f():\n    global a",
    ],
)
def test_each_impurity_is_caught(impure):
    assert impurities(impure), impure


@pytest.mark.parametrize(
    "pure", ["x = a // b", "x = {1: 2}", "import re", "from gosched.core.spec import Job", "job.id"]
)
def test_what_is_pure_passes(pure):
    assert impurities(pure) == []
