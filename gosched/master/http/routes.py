"""What routes are made with: a router that refuses what its parameters do not name, the shapes of answers, and
values that several routes take.

Invariant: a query parameter that a route does not name is an error, never ignored; so is one given twice. A dry run
therefore never becomes a change.
"""

from __future__ import annotations

import difflib
import re
import time
from collections import Counter
from collections.abc import Callable, Coroutine, Iterator, Sequence
from operator import itemgetter
from typing import Annotated, Any
from urllib.parse import unquote

from fastapi import APIRouter, Depends, Path, Query
from fastapi.dependencies.utils import get_flat_params
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Scope

from gosched.api.json.document import Document
from gosched.api.json.values import Json
from gosched.config.moment import past_ms
from gosched.master.base.errors import invalid
from gosched.master.http.call import JsonResponse

PREFIX = "/api/v1"


DRY_RUN = "dryRun"
#: The type of a handler's parameter `dry_run: DryRun = False`. A route without it refuses dry runs.
DryRun = Annotated[bool, Query(alias=DRY_RUN, description="Check the change, and change nothing.")]
_SLASH = "%2F"
_OF_JOBS = (f"{PREFIX}/jobs/", "/jobs/", "/ui/jobs/")
#: The type of a handler's parameter `stale: Stale = False`, for `call.ask(..., stale=stale)`.
Stale = Annotated[bool, Query(description="Answer from this master's own state, which may be behind the leader's.")]


def routed_path(scope: Scope) -> str:
    """Return the path by which a request finds its route: below that of jobs an encoded slash is a part of the name of
    a job, and stays encoded until `job_name` reads it."""
    path, raw = scope["path"], scope.get("raw_path") or b""
    if not path.startswith(_OF_JOBS) or _SLASH.encode() not in raw.upper():
        return str(path)
    parts = re.split(_SLASH, raw.partition(b"?")[0].decode("latin-1"), flags=re.IGNORECASE)
    return _SLASH.join(map(unquote, parts))


def job_name(text: str) -> str:
    """Return what a part of a path calls a job."""
    return text.replace(_SLASH, "/")


def _job_of_path(
    job: Annotated[
        str, Path(description="Its id or its name; TENANT%2FNAME where several tenants have jobs of the name.")
    ],
) -> str:
    return job_name(job)


#: The type of a handler's parameter `job: JobName`, which is a part of the path.
JobName = Annotated[str, Depends(_job_of_path)]


class StrictRoute(APIRoute):
    """A route that takes its own query parameters and no others."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handler = super().get_route_handler()
        fields = [field for field in get_flat_params(self.dependant) if getattr(field.field_info, "in_", None)]
        known = {field.alias: field for field in fields if field.field_info.in_.value == "query"}  # type: ignore[attr-defined]

        async def strict(request: Request) -> Response:
            counts = Counter(name for name, _ in request.query_params.multi_items())
            for name, count in counts.items():
                if name not in known:
                    if name == DRY_RUN:
                        raise invalid("this path has no dry run: nothing was changed")
                    raise invalid(f"there is no parameter {name[:80]!a}{_suggestion(name, list(known))}")
                if count > 1 and not _takes_many(known[name]):
                    raise invalid(f"the parameter {name} is given {count} times: give it once")
            return await handler(request)

        return strict


def rest_router(tag: str) -> APIRouter:
    """Return a router for the routes of one noun, below `/api/v1`."""
    return APIRouter(
        prefix=PREFIX,
        tags=[tag],
        route_class=StrictRoute,
        default_response_class=JsonResponse,
        generate_unique_id_function=lambda route: route.name,
    )


def answers(name: str, schema: Json, *, status: int = 200, many: bool = False) -> dict[str, Any]:
    """Return the arguments of a route that say what it answers: `schema`, by `name` among the components of the
    OpenAPI document, or a list of such."""
    shape = {**schema, "title": name}
    content = {"application/json": {"schema": {"type": "array", "items": shape} if many else shape}}
    return {"responses": {status: {"description": name, "content": content}}, "status_code": status}


class RowList:
    """What may be asked of a list: an order of its rows, and some of their members alone.

    A handler has the parameters `sort: str = LIST.sort, fields: str = LIST.fields`. `orders`: members to order by.
    """

    def __init__(self, document: Document, orders: Sequence[str]) -> None:
        self._document = document
        self._keys = [member.key for member in document.members]
        self._orders = orders
        keys = "|".join(self._keys)
        self.sort: Any = Query(
            default="",
            max_length=100,
            description="The member to order by; with - before it the largest first.",
            json_schema_extra={"pattern": f"^(-?({'|'.join(orders)}))?$"},
        )
        self.fields: Any = Query(
            default="",
            max_length=1000,
            description="Members of the answer's items, with commas; all if empty.",
            json_schema_extra={"pattern": f"^(({keys})(,({keys}))*)?$"},
        )

    def answers(self, name: str) -> dict[str, Any]:
        """Return the arguments of a route that say what it answers: a list of `name`, each with some of its members."""
        schema = {key: value for key, value in self._document.schema().items() if key != "required"}
        return answers(name, schema, many=True)

    def shown(self, rows: Sequence[Json], *, sort: str, fields: str) -> Iterator[Json]:
        """Return the rows as they are asked for. Raises ApiError."""
        names = self._names(fields)
        ordered = self._in_order(rows, sort)
        return ({name: row[name] for name in names if name in row} if names else row for row in ordered)

    def _in_order(self, rows: Sequence[Json], sort: str) -> Sequence[Json]:
        if not sort:
            return rows
        name = sort.removeprefix("-")
        if name not in self._orders:
            raise invalid(f"sort: {name[:80]!a} is no order{_suggestion(name, list(self._orders))}")
        return sorted(rows, key=itemgetter(name), reverse=sort.startswith("-"))

    def _names(self, fields: str) -> list[str]:
        """Return the members that are asked for; none: all."""
        names = [name.strip() for name in fields.split(",")] if fields else []
        for name in names:
            if name not in self._keys:
                raise invalid(f"fields: there is no member {name[:80]!a}{_suggestion(name, self._keys)}")
        return names


def body_of(
    name: str, schema: Json, *, media: tuple[str, ...] = ("application/json",), required: bool = True
) -> dict[str, Any]:
    """Return the `openapi_extra` of a route that reads a body of this shape itself."""
    shape = {"additionalProperties": False, **schema, "title": name}
    return {"requestBody": {"required": required, "content": {one: {"schema": shape} for one in media}}}


def labels_of(texts: Sequence[str]) -> dict[str, str]:
    """Return the labels of a parameter that is given once for each, as `key=value`. Raises ApiError."""
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not key or not equals:
            raise invalid(f"label: expected key=value, got {text[:80]!a}")
        if found.setdefault(key, value) != value:
            raise invalid(f"label: {key[:80]!a} is given with two values; nothing has both")
    return found


def moment_of(name: str, text: str) -> int:
    """Return the moment that a parameter says, `2h` for two hours ago or RFC 3339, in ms since 1970; 0 where it is
    empty. Raises ApiError."""
    try:
        return past_ms(text, time.time_ns() // 1_000_000) if text else 0
    except ValueError as error:
        raise invalid(f"{name}: {error}") from error


def _takes_many(field: Any) -> bool:
    return "list" in str(field.field_info.annotation)


def _suggestion(name: str, known: list[str]) -> str:
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        return f"; did you mean {near[0]}?"
    return f"; there are {', '.join(sorted(known))}" if known else "; this path takes none"
