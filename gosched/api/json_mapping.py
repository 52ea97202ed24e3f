"""JSON of records: a document says which member comes from which field; the value and its schema follow from the types.

A member is written as `key=path`, or as a path whose last name, without or with another unit, is the key:

    path                      key                value
    spec.name                 name               as it is
    state=shown_state         state              the name of an enum
    ended_at_ms               ended_at           a moment: ISO 8601 in UTC; null for 0
    until=until_ms            until              a moment: the key has no unit
    estimate_ms               estimate_s         a time span in seconds: the key ends in `_s`
    cpu_milli                 cpu                a number with a fraction
    usage.*                   (several)          all fields of a record, one by one

Invariant: a path names fields and properties that the record has, and each value has one shape; what breaks this is an
error at import.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass
from enum import IntEnum
from typing import Any, Union, get_args, get_origin, get_type_hints

from gosched.api.json_values import AMOUNT_KEYS, Json, amounts_json, plain_number, resources_json, time_json
from gosched.core.primitives import Named, StringMap
from gosched.core.resources import AmountMap, Resources

Convert = Callable[[Any], Any]

_STRING, _INTEGER, _NUMBER, _FLAG = {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}
_MOMENT: Json = {"type": ["string", "null"], "format": "date-time"}
_STRINGS: Json = {"type": "object", "additionalProperties": _STRING}
_AMOUNTS: Json = {"type": "object", "additionalProperties": _NUMBER}
_ALL_AMOUNTS: Json = {
    **_AMOUNTS,
    "properties": {"cpu": _NUMBER, "memory_bytes": _INTEGER, "storage_bytes": _INTEGER, "gpu": _NUMBER},
    "required": list(AMOUNT_KEYS.values()),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """One member of a document."""

    key: str
    #: From the record to the value in JSON.
    read: Convert
    schema: Json
    #: It is left out where it is empty.
    optional: bool = False

    def under(self, path: str) -> Member:
        """Return the same member of a record that has this one at `path`."""
        step, read = _walk(path), self.read
        return Member(key=self.key, read=lambda record: read(step(record)), schema=self.schema, optional=self.optional)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Choice:
    """What a member is made of that a name alone does not say."""

    member: str
    document: Document | None = None
    #: The built-in resources are always there.
    all_amounts: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A nested object made of fields of the same record."""

    key: str
    members: tuple[MemberSpec, ...]
    #: When it is there; otherwise it is null.
    when: Callable[[Any], bool] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """The result of a function, whose annotation says the shape."""

    key: str
    make: Convert


MemberSpec = str | Member | _Choice | _Part | _Made


def using(member: str, document: Document) -> MemberSpec:
    """Return a member whose records have this document instead of their usual one."""
    return _Choice(member=member, document=document)


def all_amounts(member: str) -> MemberSpec:
    """Return a member of amounts that always has the built-in resources."""
    return _Choice(member=member, all_amounts=True)


def optional(member: str) -> MemberSpec:
    """Return a member that is left out where it is empty."""
    return _Choice(member=member, optional=True)


def part(key: str, *members: MemberSpec, when: Callable[[Any], bool] | None = None) -> MemberSpec:
    """Return a nested object made of fields of the same record; null unless `when`."""
    return _Part(key=key, members=members, when=when)


def made(key: str, make: Convert) -> MemberSpec:
    """Return a member that a function makes of the record."""
    return _Made(key=key, make=make)


class Document:
    """The JSON of one kind of record. Without members it has all fields, in their order. It is the usual document of
    its record if it is the first one. Children come before parents."""

    _usual: dict[type, Document] = {}  # noqa: RUF012 - filled at import

    def __init__(self, kind: type, *members: MemberSpec, measured: bool = False) -> None:
        """`measured`: its numbers always have a fraction (`3.0`), as what is measured has."""
        self._kind = kind
        self._measured = measured
        found = [m for given in members or _names(kind) for m in self._members(given)]
        self.members = tuple({member.key: member for member in found}.values())
        Document._usual.setdefault(kind, self)

    def __call__(self, record: Any) -> Json:
        values = ((member, member.read(record)) for member in self.members)
        return {member.key: value for member, value in values if value or not member.optional}

    def schema(self) -> Json:
        """Return the JSON schema (2020-12) of the document."""
        return {
            "type": "object",
            "properties": {member.key: member.schema for member in self.members},
            "required": [member.key for member in self.members if not member.optional],
        }

    def under(self, path: str) -> tuple[Member, ...]:
        """Return the members for the document of a record that has this one at `path`."""
        return tuple([member.under(path) for member in self.members])

    def _members(self, given: MemberSpec) -> Iterable[Member]:
        match given:
            case Member():
                return [given]
            case _Made(key=key, make=make):
                convert, schema = self._shape(get_type_hints(make)["return"], "", key)
                return [Member(key=key, read=lambda record: convert(make(record)), schema=schema)]
            case _Part(key=key, members=members, when=when):
                return [self._nested(key, members, when)]
            case _Choice(member=member):
                return [self._member(member, given)]
            case str() if given.endswith(".*"):
                path = given.removesuffix(".*")
                names = _names(_hint(self._kind, path))
                return [self._member(f"{path}.{name}", _Choice(member=given)) for name in names]
            case str():
                return [self._member(given, _Choice(member=given))]

    def _nested(self, key: str, members: tuple[MemberSpec, ...], when: Callable[[Any], bool] | None) -> Member:
        own = [member for given in members for member in self._members(given)]
        schema: Json = {
            "type": "object",
            "properties": {member.key: member.schema for member in own},
            "required": [member.key for member in own],
        }

        def read(record: Any) -> Json | None:
            return {member.key: member.read(record) for member in own} if when is None or when(record) else None

        return Member(key=key, read=read, schema=schema if when is None else _or_null(schema))

    def _member(self, notation: str, choice: _Choice) -> Member:
        given, _, path = notation.rpartition("=")
        name = path.rpartition(".")[2]
        key = given or _key(name)
        convert, schema = self._shape(_hint(self._kind, path), name, key, choice)
        step = _walk(path)
        return Member(key=key, read=lambda record: convert(step(record)), schema=schema, optional=choice.optional)

    def _shape(self, hint: Any, name: str, key: str, choice: _Choice | None = None) -> tuple[Convert, Json]:
        """Return how a value of this type becomes JSON, and the schema of that."""
        if get_origin(hint) in (Union, types.UnionType):
            kinds = [kind for kind in get_args(hint) if kind is not types.NoneType]
            convert, schema = self._shape(kinds[0], name, key, choice)
            return (lambda value: None if value is None else convert(value)), _or_null(schema)
        if hint == StringMap:
            return dict, _STRINGS
        if hint == AmountMap:
            every = choice is not None and choice.all_amounts
            return (lambda value: amounts_json(value, all_names=every)), _ALL_AMOUNTS if every else _AMOUNTS
        if get_origin(hint) is tuple:
            convert, schema = self._shape(get_args(hint)[0], name, key, choice)
            return (lambda value: [convert(item) for item in value]), {"type": "array", "items": schema}
        if hint is Resources:
            return resources_json, _ALL_AMOUNTS
        document = (choice and choice.document) or Document._usual.get(hint)
        if document is not None:
            return document, document.schema()
        return self._scalar(hint, name, key)

    def _scalar(self, kind: type, name: str, key: str) -> tuple[Convert, Json]:
        if issubclass(kind, IntEnum):
            shown = _upper_name if issubclass(kind, Named) else _lower_name
            return shown, {"type": "string", "enum": list(dict.fromkeys(shown(item) for item in kind))}
        if kind is int and name.endswith("_ms") and not key.endswith("_s"):
            return time_json, _MOMENT
        if kind is int and (name.endswith("_ms") or "_milli" in name):
            return (_in_thousandths if self._measured else plain_number), _NUMBER
        shapes = {bool: _FLAG, int: _INTEGER, float: _NUMBER}
        if kind in shapes:
            return _same, shapes[kind]
        if issubclass(kind, str):
            return str, _STRING
        raise TypeError(f"{self._kind.__name__}: {key} has no shape in JSON, it is made of {kind}")


def _names(kind: type) -> list[str]:
    return [field.name for field in fields(kind)] if is_dataclass(kind) else list(get_type_hints(kind))


def _hint(kind: type, path: str) -> Any:
    """Return the type at the end of a path of fields and properties."""
    hint: Any = kind
    for name in path.split("."):
        hint = next((k for k in get_args(hint) if k is not types.NoneType), hint) if _is_union(hint) else hint
        found = getattr(hint, name, None)
        owner = found.fget if isinstance(found, property) else hint
        hints = get_type_hints(owner)
        hint = hints.get("return" if isinstance(found, property) else name)
        if hint is None:
            raise TypeError(f"{kind.__name__} has no {path}")
    return hint


def _is_union(hint: Any) -> bool:
    return get_origin(hint) in (Union, types.UnionType)


def _walk(path: str) -> Convert:
    names = path.split(".")

    def step(record: Any) -> Any:
        for name in names:
            record = getattr(record, name)
        return record

    return step


def _key(name: str) -> str:
    if name.endswith("_at_ms"):
        return name.removesuffix("_ms")
    if name.endswith("_ms"):
        return name.removesuffix("_ms") + "_s"
    return name.replace("_millis", "").replace("_milli", "")


def _or_null(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


def _upper_name(value: IntEnum) -> str:
    return value.name


def _lower_name(value: IntEnum) -> str:
    return value.name.lower() if value else ""


def _in_thousandths(value: int) -> float:
    return value / 1000


def _same(value: Any) -> Any:
    return value
