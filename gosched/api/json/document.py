"""JSON of records: a document says which member comes from which field; value and schema follow from the field's type.

A member is written as `key=path`, or as a path whose last name, with its unit changed or left out, is the key:

    path                      key                value
    spec.name                 name               as it is
    state=shown_state         state              an enum by name, in lower case unless it is one that prints as its name
    ended_at_ms               ended_at           a moment: ISO 8601 in UTC; null for 0
    until=until_ms            until              a moment, because the key has no unit
    estimate_ms               estimate_s         a time span in seconds
    cpu_milli                 cpu                a number with a fraction
    usage.*                   (several)          all fields of a record, one by one

A document is worked out when it is first used: a command pays for those that it prints.

Invariant: a path names fields and properties that the record has, and each value has one shape; what breaks this is an
error at first use, and a test uses all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property
from typing import Any, get_args, get_origin, get_type_hints

from gosched.api.json.paths import is_record, may_be_none, names_of, reader, type_at, without_none
from gosched.api.json.values import AMOUNT_KEYS, Json, amounts_json, plain_number, resources_json, time_json
from gosched.core.primitives import Named, StringMap
from gosched.core.resources import AmountMap, Resources

Convert = Callable[[Any], Any]
Shape = tuple[Convert, Json]  # how a value becomes JSON, and the schema of that

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
        """Return the same member for a record that has this one's record at `path`."""
        step, read = reader(path), self.read
        return replace(self, read=lambda record: read(step(record)))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Field:
    """A member that a path alone does not describe."""

    member: str
    #: The built-in resources are always there.
    all_amounts: bool = False
    #: Of an enum: UNSPECIFIED is an empty string.
    may_be_unset: bool = False
    optional: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """A nested object of fields of the same record."""

    key: str
    members: tuple[MemberSpec, ...]
    #: Where this is false, the member is null; None: it is always there.
    when: Callable[[Any], bool] | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    """The result of a function; its annotation says the shape."""

    key: str
    make: Convert


MemberSpec = str | Member | _Field | _Part | _Made


def all_amounts(member: str) -> MemberSpec:
    """Return a member of amounts that always has the built-in resources."""
    return _Field(member=member, all_amounts=True)


def may_be_unset(member: str) -> MemberSpec:
    """Return a member of an enum that is empty for UNSPECIFIED: no such rule, no cause."""
    return _Field(member=member, may_be_unset=True)


def optional(member: str) -> MemberSpec:
    """Return a member that is left out where it is empty."""
    return _Field(member=member, optional=True)


def part(key: str, *members: MemberSpec, when: Callable[[Any], bool] | None = None) -> MemberSpec:
    """Return a nested object of fields of the same record; null unless `when`."""
    return _Part(key=key, members=members, when=when)


def made(key: str, make: Convert) -> MemberSpec:
    """Return a member that a function makes of the record."""
    return _Made(key=key, make=make)


class Document:
    """The JSON of one kind of record: a function from a record to its document."""

    def __init__(
        self, kind: type, *members: MemberSpec, nested: Sequence[Document] = (), measured: bool = False
    ) -> None:
        """Without members it has all fields, in their order. `nested`: for records in the record; others have all of
        their fields. `measured`: numbers always have a fraction (`3.0`), as what is measured has."""
        self.kind = kind
        self._nested = {document.kind: document for document in nested}
        self._measured = measured
        self._specs = members

    @cached_property
    def members(self) -> tuple[Member, ...]:
        """The members in their order; of two with one key the last, in the place of the first."""
        found = [member for given in self._specs or names_of(self.kind) for member in self._members(given)]
        return tuple({member.key: member for member in found}.values())

    def __call__(self, record: Any) -> Json:
        values = [(member, member.read(record)) for member in self.members]
        return {member.key: value for member, value in values if value or not member.optional}

    def schema(self) -> Json:
        """Return the JSON schema of the document (2020-12, as in OpenAPI 3.1)."""
        return _object(self.members)

    def under(self, path: str) -> tuple[Member, ...]:
        """Return the members for the document of a record that has this one's record at `path`."""
        return tuple([member.under(path) for member in self.members])

    def _members(self, given: MemberSpec) -> Iterable[Member]:
        match given:
            case Member():
                return [given]
            case _Made(key=key, make=make):
                convert, schema = self._shape(get_type_hints(make)["return"], "", key)
                return [Member(key=key, read=lambda record: convert(make(record)), schema=schema)]
            case _Part():
                return [self._part(given)]
            case _Field():
                return [self._field(given)]
            case str() if given.endswith(".*"):
                path = given.removesuffix(".*")
                names = names_of(type_at(self.kind, path))
                return [self._field(_Field(member=f"{path}.{name}")) for name in names]
            case str():
                return [self._field(_Field(member=given))]

    def _part(self, given: _Part) -> Member:
        own = [member for spec in given.members for member in self._members(spec)]
        when, schema = given.when, _object(own)

        def read(record: Any) -> Json | None:
            return {member.key: member.read(record) for member in own} if when is None or when(record) else None

        return Member(key=given.key, read=read, schema=schema if when is None else _or_null(schema))

    def _field(self, given: _Field) -> Member:
        key, _, path = given.member.rpartition("=")
        name = path.rpartition(".")[2]
        key, step = key or _key(name), reader(path)
        convert, schema = self._shape(type_at(self.kind, path), name, key, given)
        return Member(key=key, read=lambda record: convert(step(record)), schema=schema, optional=given.optional)

    def _shape(self, hint: Any, name: str, key: str, given: _Field | None = None) -> Shape:
        """`name`, `key`: of the field and of the member, for their units."""
        if may_be_none(hint):
            convert, schema = self._shape(without_none(hint), name, key, given)
            return (lambda value: None if value is None else convert(value)), _or_null(schema)
        if hint == StringMap:
            return dict, _STRINGS
        if hint == AmountMap:
            every = given is not None and given.all_amounts
            return (lambda value: amounts_json(value, all_names=every)), _ALL_AMOUNTS if every else _AMOUNTS
        if get_origin(hint) is tuple:
            convert, schema = self._shape(get_args(hint)[0], name, key, given)
            return (lambda value: [convert(item) for item in value]), {"type": "array", "items": schema}
        if hint is Resources:
            return resources_json, _ALL_AMOUNTS
        if is_record(hint):
            document = self._nested.get(hint) or Document(hint, measured=self._measured)
            return document, document.schema()
        if issubclass(hint, IntEnum):
            names = {item: _name(item) for item in hint}
            if given is not None and given.may_be_unset:
                names[hint(0)] = ""
            return names.__getitem__, {"type": "string", "enum": list(names.values())}
        return self._scalar(hint, name, key)

    def _scalar(self, kind: type, name: str, key: str) -> Shape:
        if kind is int and name.endswith("_ms") and not key.endswith("_s"):
            return time_json, _MOMENT
        if kind is int and (name.endswith("_ms") or "_milli" in name):
            return (_with_fraction if self._measured else plain_number), _NUMBER
        shapes = {bool: _FLAG, int: _INTEGER, float: _NUMBER}
        if kind in shapes:
            return _same, shapes[kind]
        if issubclass(kind, str):
            return str, _STRING
        raise TypeError(f"{self.kind.__name__}: {key} has no shape in JSON, it is made of {kind}")


def _object(members: Sequence[Member]) -> Json:
    return {
        "type": "object",
        "properties": {member.key: member.schema for member in members},
        "required": [member.key for member in members if not member.optional],
    }


def _or_null(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


def _key(name: str) -> str:
    if name.endswith("_at_ms"):
        return name.removesuffix("_ms")
    if name.endswith("_ms"):
        return name.removesuffix("_ms") + "_s"
    return name.replace("_millis", "").replace("_milli", "")


def _name(value: IntEnum) -> str:
    """Return it as users write it: states in capitals, all else in lower case."""
    return value.name if isinstance(value, Named) else value.name.lower()


def _with_fraction(thousandths: int) -> float:
    return thousandths / 1000


def _same(value: Any) -> Any:
    return value
