"""Figures of two checkouts, measured in turns: the machines are shared, and a ratio within one pair says more than two
times from different days.

    python -m benchmarks.pairs OLD_CHECKOUT cluster:submissions 'cluster:placements(5000)' scheduler:main --times 5

Each part names a function of `benchmarks` that takes a report; both checkouts have their environment in `.venv`. A
figure that only one of them has is left out.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
from pathlib import Path

_PART = re.compile(r"(\w+):(\w+)(?:\((.*)\))?")
_FIGURE = re.compile(r"^(\w+)\s+([\d,.]+(?:e[-+]\d+)?) (\S+)\s+n=\d+")
LIMIT_S = 1800


def main() -> None:
    parser = argparse.ArgumentParser(description="Measure two checkouts in turns.")
    parser.add_argument("old", type=Path, help="a checkout with its .venv")
    parser.add_argument("parts", nargs="+", metavar="MODULE:FUNCTION", help="such as 'cluster:placements(5000)'")
    parser.add_argument("--times", type=int, default=5)
    given = parser.parse_args()
    checkouts = (given.old.resolve(), Path(__file__).resolve().parents[1])
    for part in given.parts:
        pairs = [tuple(_measured(checkout, part) for checkout in checkouts) for _ in range(given.times)]
        for name, (_, unit) in pairs[0][1].items():
            if all(name in figures for pair in pairs for figures in pair):
                _say(name, unit, [(old[name][0], new[name][0]) for old, new in pairs])


def _measured(checkout: Path, part: str) -> dict[str, tuple[float, str]]:
    """Return the figures of one run, each with its unit, by name."""
    found = _PART.fullmatch(part)
    if found is None:
        raise SystemExit(f"{part} is not of the form MODULE:FUNCTION, such as cluster:submissions")
    module, function, arguments = found.groups()
    call = f"b.{function}({', '.join(['Report()', arguments] if arguments else ['Report()'])})"
    code = f"from benchmarks import {module} as b; from benchmarks.report import Report; {call}"
    if function == "main":
        code = f"from benchmarks import {module} as b; b.main()"
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [str(checkout / ".venv" / "bin" / "python"), "-c", code]
    done = subprocess.run(
        command, cwd=checkout, env=environment, stdout=subprocess.PIPE, text=True, timeout=LIMIT_S, check=True
    )
    lines = [_FIGURE.match(line) for line in done.stdout.splitlines()]
    return {line[1]: (float(line[2].replace(",", "")), line[3]) for line in lines if line}


def _say(name: str, unit: str, pairs: list[tuple[float, float]]) -> None:
    old, new = (statistics.median(values) for values in zip(*pairs, strict=True))
    ratios = sorted(now / before for before, now in pairs if before)
    if ratios:
        spread = f"{statistics.median(ratios):.2f} times ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        print(f"{name:44} {old:,.6g} -> {new:,.6g} {unit}, {spread}, {len(pairs)} pairs", flush=True)


if __name__ == "__main__":
    main()
