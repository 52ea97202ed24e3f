"""What a page is: an address, a title, a template, and the function that builds what the template shows.

A new page is a module with such a function, a template that extends `layout`, and a line in `site.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from starlette.requests import Request

from gosched.core.access import job_object
from gosched.core.records.job import Job
from gosched.master.base.access import Sees, Wording
from gosched.master.base.callers import Caller
from gosched.master.http.call import CALL
from gosched.master.http.routes import job_name
from gosched.master.web.query import Query
from gosched.master.web.sources import Sources


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request for a page."""

    query: Query
    #: The parts of the path that have names.
    params: Mapping[str, str]
    #: Who asks, for calls to the leader.
    caller: Caller
    #: Whether it sees jobs of this tenant, queue and owner; None: all.
    sees: Sees | None = None
    #: Hides the names of jobs that it does not see, in a line for people.
    words: Wording = str

    def shows(self, job: Job) -> bool:
        """Return whether the page may name the job."""
        return self.sees is None or self.sees(job_object(job))


Builder = Callable[[Sources, Asked], Awaitable[object]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """A page of the site."""

    #: As Starlette writes it: `/nodes/{node:path}`.
    path: str
    #: Of the part of the site that it belongs to, as in the navigation.
    section: str
    #: File in `templates/`; it gets the result of `build` as `view`, and the frame as `frame`.
    template: str
    build: Builder
    #: It is shown again when something changes.
    live: bool = True


#: Stands for the name of a job that the caller may not see.
HIDDEN = "another tenant's job"

#: Whether a page may name a job.
Shows = Callable[[Job], bool]


class NoSuchPage(Exception):
    """There is nothing of that name; the message says so in one line."""


def asked_of(sources: Sources, request: Request) -> Asked:
    """Return a request as pages take it."""
    caller: Caller = request.scope[CALL].caller
    return Asked(
        query=Query(request.query_params),
        params={name: job_name(text) if name == "job" else text for name, text in request.path_params.items()},
        caller=caller,
        sees=sources.access.lists(caller),
        words=sources.access.wording(caller),
    )
