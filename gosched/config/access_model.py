"""Who may administer a cluster from its first start on, and what tenants see of each other."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator

from gosched.config.validation import Model, problem_at
from gosched.core.limits import MAX_NAME_LENGTH, MAX_NAMES_PER_BINDING
from gosched.core.records.access import AccessRole, Binding

GROUP = "group:"
FROM_CONFIG = "access.admins"  # the name of the binding that the config makes


def _listed(value: object) -> object:
    """Read `a,b` from the environment as a list."""
    return [item.strip() for item in value.split(",") if item.strip()] if isinstance(value, str) else value


def _subjects(names: tuple[str, ...]) -> tuple[str, ...]:
    if len(names) > MAX_NAMES_PER_BINDING:
        raise ValueError(f"{len(names)} names; at most {MAX_NAMES_PER_BINDING}")
    for place, name in enumerate(names):
        bare = name.removeprefix(GROUP)
        if not bare or bare == "*" or len(bare) > MAX_NAME_LENGTH or not bare.isprintable():
            raise problem_at((place,), f"expected the name of a user, or {GROUP}NAME, got {name!r}")
    return names


class AccessSettings(Model):
    """`admins`: users, and groups as `group:NAME`, that are administrators whatever the bindings say; with TLS a new
    cluster needs one to begin with. `other_tenants`: whether a job of another tenant is `hidden` from those who may not
    see it, or `listed`: by name, state and queue, without what is in it."""

    admins: Annotated[tuple[str, ...], BeforeValidator(_listed), AfterValidator(_subjects)] = ()
    other_tenants: Literal["hidden", "listed"] = "hidden"

    def binding(self) -> Binding:
        """Return what it grants."""
        groups = [name.removeprefix(GROUP) for name in self.admins if name.startswith(GROUP)]
        users = [name for name in self.admins if not name.startswith(GROUP)]
        return Binding(
            name=FROM_CONFIG, role=AccessRole.ADMIN, users=tuple(sorted(users)), groups=tuple(sorted(groups))
        )
