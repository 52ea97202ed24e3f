"""Bindings as they are written in a file, and read back from a cluster.

    bindings:
      - {name: nlp, role: submitter, groups: [nlp], tenants: [nlp], queues: [research.llm]}
      - {name: nlp-lead, role: tenant-admin, users: [ann], tenants: [nlp], ceiling: {gpu: 64}}

Invariant: what is accepted here passes the state machine's own checks.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator, model_validator

from gosched.config.errors import ConfigError, shown, suggestion
from gosched.config.queue_writer import amounts_keys
from gosched.config.tree import read_documents
from gosched.config.validation import Model, Word, problem_at, validate
from gosched.config.vector import Vector
from gosched.core.access import GRANTS
from gosched.core.limits import MAX_NAME_LENGTH
from gosched.core.records.access import AccessRole, Binding
from gosched.core.rules.access import check_bindings

ROLES = {role.word: role for role in GRANTS}


def read_role(value: object) -> AccessRole:
    """Return the role of a name such as `tenant-admin`. Raises ValueError."""
    if not isinstance(value, str) or value not in ROLES:
        near = suggestion(str(value), ROLES)
        raise ValueError(f"expected one of {', '.join(ROLES)}, got {shown(value)}{near}")
    return ROLES[value]


Role = Annotated[AccessRole, BeforeValidator(read_role)]


def _subject(value: object) -> str:
    """Check the name of a user, a group or an account. A name such as `false` or `1` is text in quotes."""
    if not isinstance(value, str) or not value.strip() or len(value) > MAX_NAME_LENGTH or not value.isprintable():
        raise ValueError(
            f"expected a name of 1 to {MAX_NAME_LENGTH} characters, in quotes if it is a number, got {shown(value)}"
        )
    return value


Subject = Annotated[str, BeforeValidator(_subject)]


class BindingConfig(Model):
    """A role for some users and groups; `tenants`, `queues`: what it holds for, empty: all; `accounts`: system accounts
    that their tasks may run as."""

    name: Word
    role: Role
    users: tuple[Subject, ...] = ()
    groups: tuple[Subject, ...] = ()
    tenants: tuple[Word, ...] = ()
    queues: tuple[Word, ...] = ()
    accounts: tuple[Subject, ...] = ()
    ceiling: Vector = ()

    def record(self) -> Binding:
        return Binding(
            name=self.name,
            role=self.role,
            users=tuple(sorted(set(self.users))),
            groups=tuple(sorted(set(self.groups))),
            tenants=tuple(sorted(set(self.tenants))),
            queues=tuple(sorted(set(self.queues))),
            accounts=tuple(sorted(set(self.accounts))),
            ceiling=self.ceiling,
        )


class BindingsConfig(Model):
    """All bindings of a cluster."""

    bindings: tuple[BindingConfig, ...]

    @model_validator(mode="after")
    def _follow_the_rules(self) -> BindingsConfig:
        found = check_bindings(self.records())
        if found:
            raise problem_at(("bindings", *found.path), found.words)
        return self

    def records(self) -> tuple[Binding, ...]:
        return tuple([binding.record() for binding in self.bindings])


def parse_bindings(text: bytes | str, source: str) -> tuple[Binding, ...]:
    """Return the bindings of a file. Raises ConfigError."""
    documents = read_documents(text, source)
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        raise ConfigError(f"{source}: expected one document with bindings; none at all are `bindings: []`")
    return validate(BindingsConfig, documents[0]).records()


def bindings_keys(bindings: Sequence[Binding]) -> dict[str, Any]:
    """Return what a file of these bindings says."""
    return {"bindings": [{"name": binding.name, **binding_keys(binding)} for binding in bindings]}


def binding_keys(binding: Binding) -> dict[str, Any]:
    """Return the keys of a binding that are not empty, without its name."""
    keys: dict[str, Any] = {"role": binding.role.word}
    for key in ("users", "groups", "tenants", "queues", "accounts"):
        if getattr(binding, key):
            keys[key] = list(getattr(binding, key))
    return {**keys, **({"ceiling": amounts_keys(binding.ceiling)} if binding.ceiling else {})}
