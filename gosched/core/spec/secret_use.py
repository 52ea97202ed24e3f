"""Which secrets of its tenant a task gets, and how."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

#: What `registry` of a job begins with where it names a secret of the tenant, and not credentials of the node.
REGISTRY_PREFIX = "secret:"


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretUse:
    """A secret as a task gets it: as a file, or as a variable. One of the two is set."""

    #: Of a secret of the job's tenant.
    name: str
    #: Path below the task's directory of secrets; empty: it is a variable.
    file: str = ""
    #: Name of the variable; empty: it is a file.
    env: str = ""


def registry_secret(registry: str) -> str:
    """Return the name of the secret that a job's `registry` names; empty: it names none."""
    return registry.removeprefix(REGISTRY_PREFIX) if registry.startswith(REGISTRY_PREFIX) else ""


def secret_names(uses: Iterable[SecretUse], registry: str) -> list[str]:
    """Return the secrets that a task with these and this `registry` needs, each once."""
    of_registry = registry_secret(registry)
    return [*dict.fromkeys([*[use.name for use in uses], *([of_registry] if of_registry else [])])]
