"""Writes the table of values in the chart's README from the comments in its values.yaml.

    helm_values.py [--check]

Invariant: every value has a comment, and a row. With --check nothing is written: the exit code says whether the README
is true.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

CHART = Path(__file__).parent.parent / "deploy" / "helm" / "gosched"
MARK = "<!-- from here on by tools/helm_values.py -->\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class Value:
    #: Dotted, such as `master.replicaCount`.
    key: str
    #: As it stands in the file.
    default: str
    #: The comment above it.
    text: str


def values_of(source: str) -> list[Value]:
    """Return the values in their order. A key without a value of its own holds others, and is none. Raises
    ValueError for a value without a comment."""
    lines = source.splitlines()
    found = []
    parents: list[str] = []
    comment: list[str] = []
    for place, line in enumerate(lines):
        stripped = line.strip()
        if stripped.startswith("#"):
            comment.append(stripped.removeprefix("#").strip())
            continue
        if not stripped:
            comment = []
            continue
        depth = (len(line) - len(line.lstrip())) // 2
        name, _, default = stripped.partition(":")
        parents = [*parents[:depth], name]
        key, text = ".".join(parents), " ".join(comment)
        comment = []
        if default.strip():
            if not text and not _is_inside(found, key):
                raise ValueError(f"values.yaml:{place + 1}: {key} has no comment above it")
            if text:
                found.append(Value(key=key, default=default.strip(), text=text))
        elif text:  # a commented mapping is one value, shown as a whole
            rest = [line.strip() for line in lines[place + 1 : _end(lines, place)]]
            found.append(Value(key=key, default=f"{{{', '.join(rest)}}}", text=text))
    return found


def table(values: list[Value]) -> str:
    rows = [f"| `{value.key}` | `{value.default}` | {value.text} |" for value in values]
    return "\n".join(["| value | default | what it is |", "|---|---|---|", *rows]) + "\n"


def _is_inside(values: list[Value], key: str) -> bool:
    return any(key.startswith(f"{value.key}.") for value in values)


def _end(lines: list[str], place: int) -> int:
    """The line after the last one below the key at this line."""
    indent = len(lines[place]) - len(lines[place].lstrip())
    after = range(place + 1, len(lines))
    return next((i for i in after if len(lines[i]) - len(lines[i].lstrip()) <= indent), len(lines))


def main(arguments: list[str]) -> int:
    readme = CHART / "README.md"
    before, mark, _ = readme.read_text().partition(MARK)
    made = before + mark + "\n" + table(values_of((CHART / "values.yaml").read_text()))
    if arguments == ["--check"]:
        if made != readme.read_text():
            print(f"{readme} is not what values.yaml says: run tools/helm_values.py", file=sys.stderr)
            return 1
        return 0
    readme.write_text(made)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
