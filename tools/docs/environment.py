"""The reference of the variables that tasks get."""

from __future__ import annotations

import re
from pathlib import Path

from gosched.agent.runtimes.environment import DEFAULT_PATH, INHERITED, OF_THE_USER
from tools.docs.markdown import code, page, table
from tools.docs.texts import entries

_GOSCHED = Path(__file__).parents[2] / "gosched"
#: The programs that set variables of tasks, and how such a variable looks there.
_SET_IN = ("master/agents", "agent")
_VARIABLE = re.compile(
    r'"((?:GOSCHED|PET|MASTER|CUDA|NVIDIA|OMPI|PRTE|PMIX?|HYDRA|MPIEXEC)_[A-Z0-9_]+|RANK|LOCAL_RANK|WORLD_SIZE|TRACEPARENT)"'
)


def task_environment() -> str:
    """Return the page. Raise Incomplete if a variable has no text."""
    texts = entries("task_environment", variables())
    rows = [(code(name), text["when"], text["means"]) for name, text in texts.items()]
    inherited = ", ".join(map(code, INHERITED))
    return page(
        "Task environment",
        "Every task gets these variables besides those of `env` in its job file, which cannot begin with `GOSCHED_`.",
        table(("variable", "of", "holds"), rows),
        "## From the node",
        f"{inherited} come from the agent's own environment; `PATH` is `{DEFAULT_PATH}` where it has none."
        f" {', '.join(map(code, OF_THE_USER))} are those of the task's user. A container has its image's instead.",
    )


def variables() -> list[str]:
    """Return the names that the programs set, as their sources have them."""
    sources = [path for folder in _SET_IN for path in (_GOSCHED / folder).rglob("*.py")]
    return sorted({name for path in sources for name in _VARIABLE.findall(path.read_text())})
