"""Renders of the chart for the sets of values beside this file, in a form that any Helm gives alike.

python -m tests.helm.renders HELM    # writes golden/ anew, with this program
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml

from tools.helm_values import CHART

HERE = Path(__file__).parent
CASES = sorted(file.stem for file in (HERE / "values").glob("*.yaml"))
LIMIT_S = 120
NEWEST = "--kube-version=1.37.0"  # a Helm that was built from its module says that it knows none


def render(helm: str, case: str, *values: str) -> list[dict[str, Any]]:
    """Return the objects of a release `gosched` in the namespace `batch`, the hooks included. `values`: others, as
    `key=value`."""
    words = [helm, "template", "gosched", str(CHART), "--namespace=batch", f"--values={HERE / 'values' / case}.yaml"]
    words += [f"--set={value}" for value in values]
    done = subprocess.run([*words, NEWEST], stdout=subprocess.PIPE, text=True, timeout=LIMIT_S, check=True)
    return [found for found in yaml.safe_load_all(done.stdout) if found]


def golden_text(objects: list[dict[str, Any]]) -> str:
    """Sorted, and without what is made anew at each install."""
    shown = []
    for found in sorted(objects, key=lambda o: (o["kind"], o["metadata"]["name"])):
        if found["kind"] == "Secret":
            found = {**found, "data": dict.fromkeys(found["data"], "made at install")}
        shown.append(found)
    text: str = yaml.safe_dump_all(shown, width=120)
    return text


def golden_file(case: str) -> Path:
    return HERE / "golden" / f"{case}.yaml"


if __name__ == "__main__":
    for name in CASES:
        golden_file(name).write_text(golden_text(render(sys.argv[1], name)))
