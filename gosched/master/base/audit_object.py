"""What a call is about, as the audit log says it: names and ids, as the request has them; ids of what was made.

Which parts a message can have follows from its type alone, and is looked up once for each.

Invariant: of a secret its name is told and never its value, of a token to join with its id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from typing import Any

from gosched.core.commands.jobs import Action
from gosched.wire.join_token import id_of_token
from gosched.wire.serials import serial_of_pem
from gosched.wire.v1 import join_pb2, secret_pb2

_MAX_NAMED = 10  # objects of one call that are named
_OF_A_SECRET = (secret_pb2.SetSecretRequest, secret_pb2.DeleteSecretRequest)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    title: str
    #: A message is told by it if it has fields of all these names.
    fields: frozenset[str]
    #: The texts of such a message; empty ones are left out.
    texts: Callable[[Any], Iterable[str]]
    #: Of the answer, and not of the request.
    of_answer: bool


def object_of(request: Any, answer: Any) -> str:
    """Return in short what a call is about. `request` may be None: it never came."""
    if request is None:
        return ""
    request = getattr(request, "start", None) or request  # of ExecTask
    found: dict[str, dict[str, None]] = {}
    for part in _parts_of(request.__class__, answer.__class__):
        for text in part.texts(answer if part.of_answer else request):
            if text:
                found.setdefault(part.title, {})[text] = None
    texts = [f"{title} {', '.join(values)}" for title, values in found.items()]
    left = len(getattr(request, "specs", ())) - _MAX_NAMED
    return "; ".join([*texts, *([f"and {left} more jobs"] if left > 0 else [])])


@cache
def _parts_of(request: type, answer: type) -> tuple[_Part, ...]:
    """Return the parts that messages of these types have."""
    of_request, of_answer = _fields(request), _fields(answer)
    return tuple([part for part in _PARTS if part.fields <= (of_answer if part.of_answer else of_request)])


def _fields(kind: type) -> frozenset[str]:
    return frozenset(kind.DESCRIPTOR.fields_by_name) if hasattr(kind, "DESCRIPTOR") else frozenset()


def _part(title: str, fields: str, texts: Callable[[Any], Iterable[str]], *, of_answer: bool = False) -> _Part:
    return _Part(title=title, fields=frozenset(fields.split()), texts=texts, of_answer=of_answer)


def _text(title: str, field: str, *more: str, of_answer: bool = False) -> _Part:
    """Return the part that is a field's text; `more`: other fields that the message must have."""

    def texts(message: Any) -> Iterable[str]:
        value = getattr(message, field)
        return (value,) if isinstance(value, str) else ()

    return _Part(title=title, fields=frozenset({field, *more}), texts=texts, of_answer=of_answer)


def _each(title: str, field: str, text: Callable[[Any], str], *, of_answer: bool = False) -> _Part:
    """Return the part that has a text for each of the first values of a repeated field."""
    return _part(
        title,
        field,
        lambda message: [text(one) for one in getattr(message, field)[:_MAX_NAMED]],
        of_answer=of_answer,
    )


def _secret(message: Any) -> list[str]:
    return [f"{message.tenant}/{message.name}"] if isinstance(message, _OF_A_SECRET) else []


def _name(message: Any) -> list[str]:
    return [] if isinstance(message, _OF_A_SECRET) or not isinstance(message.name, str) else [message.name]


def _labels(message: Any) -> list[str]:
    return [f"{key}={value}" for key, value in sorted(message.labels.items())[:_MAX_NAMED]]


def _action(message: Any) -> list[str]:
    try:
        return [Action(message.action).name.lower()] if message.action else []
    except ValueError:
        return [str(message.action)]


def _issued(answer: Any) -> list[str]:
    """Return the serial number of the certificate that an agent gets."""
    return [serial_of_pem(answer.certificate)] if isinstance(answer, join_pb2.JoinResponse) else []


#: In the order in which they are told; parts of one title stand together.
_PARTS = (
    _text("job", "job"),
    _part("job", "spec", lambda request: [request.spec.name]),
    _each("job", "specs", lambda spec: spec.name),
    _text("id", "job_id", of_answer=True),
    _each("id", "outcomes", lambda outcome: outcome.job_id, of_answer=True),
    _text("task", "task"),
    _part("queue", "spec", lambda request: [request.spec.queue]),
    _each("queue", "specs", lambda spec: spec.queue),
    _each("queue", "queues", lambda queue: queue if isinstance(queue, str) else queue.path),
    _part("tenant", "spec", lambda request: [request.spec.tenant]),
    _each("tenant", "specs", lambda spec: spec.tenant),
    _each("tenant", "quotas", lambda quota: quota.tenant),
    _part("secret", "tenant name", _secret),
    _each("binding", "bindings", lambda binding: binding.name),
    # The user of a token. The one in a submission is a claim of its submitter, and is not told.
    _text("user", "user", "lasts_ms"),
    _text("node", "node"),
    _text("node", "node_id"),
    _part("join token", "token csr", lambda request: [id_of_token(request.token)]),
    _part("window", "window", lambda request: [request.window.name]),
    _part("name", "name", _name),
    _text("master", "id"),
    _part("action", "action", _action),
    _text("certificate", "serial"),
    _part(
        "certificate",
        "revocation",
        lambda answer: [answer.revocation.certificate, answer.revocation.holder],
        of_answer=True,
    ),
    _part("certificate", "certificate", _issued, of_answer=True),
    _text("level", "level"),
    _part("labels", "labels", _labels),
    _each("drop", "drop_labels", str),
    _each("drop", "drop_taints", str),
    _each("taints", "taints", lambda taint: f"{taint.key}={taint.value}"),
    _part("command", "command", lambda start: [" ".join(start.command)]),
    _part("dry run", "dry_run", lambda request: ["yes" if request.dry_run else ""]),
)
