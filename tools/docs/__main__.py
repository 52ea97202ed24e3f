"""Makes pages from the code: `python -m tools.docs` writes docs/reference, `--check` says which pages are stale."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tools.docs.codes import codes, exit_codes
from tools.docs.commands import daemons, goschedctl
from tools.docs.environment import task_environment
from tools.docs.grpc_services import grpc_services
from tools.docs.job_file import job_file
from tools.docs.limits import limits_page
from tools.docs.metrics import alerts, metrics
from tools.docs.rest import rest
from tools.docs.sbatch import sbatch
from tools.docs.settings import agent_settings, master_settings
from tools.docs.texts import Incomplete

REFERENCE = Path(__file__).parents[2] / "docs/reference"
#: By the file's name.
PAGES: Mapping[str, Callable[[], str]] = {
    "job-file": job_file,
    "settings-master": master_settings,
    "settings-agent": agent_settings,
    "goschedctl": goschedctl,
    "sbatch": sbatch,
    "daemons": daemons,
    "codes": codes,
    "exit-codes": exit_codes,
    "metrics": metrics,
    "alerts": alerts,
    "task-environment": task_environment,
    "rest": rest,
    "grpc": grpc_services,
    "limits": limits_page,
}


def main(arguments: list[str]) -> int:
    """Write the pages, or compare them with what lies there. A page that lacks a text is named, and stays as it is."""
    made, lacking = {}, []
    for name, make in PAGES.items():
        try:
            made[REFERENCE / f"{name}.md"] = make()
        except Incomplete as error:
            lacking.append(str(error))
    print("".join(f"{line}\n" for line in lacking), end="", file=sys.stderr)
    stale = [path for path, text in made.items() if not path.exists() or path.read_text() != text]
    if "--check" in arguments:
        print("".join(f"{path.name} is stale: run make reference\n" for path in stale), end="", file=sys.stderr)
        return 1 if stale or lacking else 0
    for path in stale:
        path.write_text(made[path])
        print(f"wrote docs/reference/{path.name}")
    return 1 if lacking else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
