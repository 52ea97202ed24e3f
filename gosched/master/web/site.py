"""The whole site: its pages, their files, and the stream of changes.

To add a page, write a module with `async def build(sources, asked)`, which returns a record, and a template:

    {% extends frame.layout %}
    {% block title %}Jobs{% endblock %}
    {% block content %} what `view` shows; it is asked for again when something changes {% endblock %}
    {% block fixed %} what stays as it is, such as forms and charts {% endblock %}

and a line in PAGES, with its part of the site in SECTIONS. Blocks `head` (above the content: heading, filters),
`styles`, `scripts` and `tools` (in the top line) are there too. `templates/parts.html` has bars, states, times and
pages of lists; `static('NAME')` is the address of a file in `static/`; `draw(bar(whole, ('held', used)), LABEL)` is a
bar. A form with `data-api` calls REST (`static/actions.js`). In `build`, `sources.state` is this master's own state,
to be read without awaiting in between; `sources.ask(METHOD, MESSAGE, asked.caller)` asks the leader; `Recent` shares an
answer among many viewers. NoSuchPage is a 404. There are no inline scripts, styles or `style=` attributes: the policy
of pages forbids them.

Invariant: a page is answered whatever the state is; what a master does not know, the page says.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from gosched import __version__
from gosched.core.access import Permission
from gosched.master.base.cancel import cancel_all
from gosched.master.http.call import CALL
from gosched.master.http.session import LOGIN, LOGIN_CALLBACK, LOGIN_OIDC
from gosched.master.web.changes import Changes
from gosched.master.web.job_pages import JOB_PAGES, add_job_routes
from gosched.master.web.login import Login
from gosched.master.web.node import node_page
from gosched.master.web.nodes import nodes_page
from gosched.master.web.overview import overview, trend_series
from gosched.master.web.page import NoSuchPage, Page, asked_of
from gosched.master.web.query import Query
from gosched.master.web.queues import queues_page
from gosched.master.web.recent import Recent
from gosched.master.web.rendering import Frame, Rendering
from gosched.master.web.schedule import schedule_page
from gosched.master.web.security import HEADERS, page_headers
from gosched.master.web.sources import Sources
from gosched.master.web.static_files import PREFIX, StaticFiles, read_files
from gosched.master.web.trends import Trends
from gosched.observe.faults import Faults

#: The parts of the site, in the order of the navigation.
SECTIONS = (
    ("Overview", "/"),
    ("Jobs", "/jobs"),
    ("Queues", "/queues"),
    ("Nodes", "/nodes"),
    ("Schedule", "/schedule"),
)
PAGES = (
    Page(path="/", section="Overview", template="overview.html", build=overview),
    *JOB_PAGES,
    Page(path="/queues", section="Queues", template="queues.html", build=queues_page),
    Page(path="/nodes", section="Nodes", template="nodes.html", build=nodes_page),
    Page(path="/nodes/{node:path}", section="Nodes", template="node.html", build=node_page),
    Page(path="/schedule", section="Schedule", template="schedule.html", build=schedule_page),
)
KEPT_S = 1.0  # a rendering, for the others who ask for the same page
MAX_KEPT = 128


class Site:
    """The pages of one master."""

    def __init__(self, sources: Sources, faults: Faults) -> None:
        self._sources = sources
        self._faults = faults
        self._files = StaticFiles(read_files())
        self._rendering = Rendering(self._files)
        self._changes = Changes(sources.replication, sources.access)
        self._recent: Recent[tuple[int, bytes]] = Recent(sources.clock, kept_s=KEPT_S, most=MAX_KEPT)
        self._work: list[asyncio.Task[None]] = []

    def router(self) -> APIRouter:
        """Return the routes, for the HTTP server that serves the site."""
        router = APIRouter(include_in_schema=False)
        for page in PAGES:
            router.add_route(page.path, self._endpoint(page), methods=["GET"])
        router.add_route(f"{PREFIX}/{{file:path}}", self._files.serve, methods=["GET"])
        add_job_routes(router, self._sources, self._shown)
        login = Login(self._sources.access, self._rendering, self._sources.code_flow, self._sources.now_ms)
        router.add_route(LOGIN, login.show, methods=["GET"])
        router.add_route(LOGIN, login.begin, methods=["POST"])
        router.add_route(LOGIN_OIDC, login.to_issuer, methods=["GET"])
        router.add_route(LOGIN_CALLBACK, login.from_issuer, methods=["GET"])
        router.add_route("/logout", login.end, methods=["POST"])
        router.add_route("/ui/changes", self._changes.serve, methods=["GET"])
        router.add_route("/ui/trends", self._trends, methods=["GET"])
        router.add_route("/ui/alive", _alive, methods=["GET"])
        router.add_route("/favicon.ico", self._icon, methods=["GET"])
        return router

    @property
    def listeners(self) -> int:
        """Return how many pages are open that hear of changes."""
        return self._changes.listeners

    @property
    def trends(self) -> Trends:
        return self._sources.trends

    def start(self) -> None:
        self._work = [asyncio.ensure_future(self._faults.keep("trends", self._sources.trends.run))]

    async def stop(self) -> None:
        self._changes.stop()
        await cancel_all(self._work)
        await self._recent.close()
        await self._sources.told.close()

    def _endpoint(self, page: Page) -> Callable[[Request], Awaitable[Response]]:
        async def endpoint(request: Request) -> Response:
            fragment = "hx-request" in request.headers
            caller = request.scope[CALL].caller
            self._sources.access.check(caller, Permission.VIEW)
            key = (str(request.url.path), str(request.url.query), fragment, self._sources.access.viewer(caller))
            status, body = await self._recent.get(key, lambda: self._page(page, request, fragment))
            headers = page_headers(self._sources.http_addresses().values())
            headers["Vary"] = "HX-Request"
            return Response(body, status_code=status, media_type="text/html; charset=utf-8", headers=headers)

        return endpoint

    async def _page(self, page: Page, request: Request, fragment: bool) -> tuple[int, bytes]:
        query = Query(request.query_params)
        asked = asked_of(self._sources, request)
        try:
            view = await page.build(self._sources, asked)
        except NoSuchPage as error:
            frame = self._frame(page, request, query, fragment)
            return 404, await self._rendering.html("missing.html", frame, str(error))
        return 200, await self._rendering.html(page.template, self._frame(page, request, query, fragment), view)

    async def _shown(self, page: Page, request: Request, view: object) -> Response:
        frame = self._frame(page, request, Query(request.query_params), fragment=True)
        body = await self._rendering.html(page.template, frame, view)
        headers = page_headers(self._sources.http_addresses().values())
        return Response(body, media_type="text/html; charset=utf-8", headers=headers)

    def _frame(self, page: Page, request: Request, query: Query, fragment: bool) -> Frame:
        replication = self._sources.replication
        path = request.url.path
        return Frame(
            section=page.section,
            sections=SECTIONS,
            url=f"{path}?{request.url.query}" if request.url.query else path,
            query=query,
            fragment=fragment,
            live=page.live,
            master=replication.member_id,
            leader=replication.role.leader,
            revision=replication.state.revision,
            now_ms=self._sources.now_ms(),
            others=dict(self._sources.http_addresses()),
            version=__version__,
        )

    async def _trends(self, request: Request) -> Response:
        self._sources.access.check(request.scope[CALL].caller, Permission.VIEW)
        body = trend_series(self._sources)
        return JSONResponse(body, headers={**HEADERS, "Cache-Control": "no-store"})

    async def _icon(self, request: Request) -> Response:
        return Response(status_code=308, headers={**HEADERS, "Location": self._files.url("icon.svg")})


async def _alive(request: Request) -> Response:
    """Answer a page of another master that looks for one that answers; it reads nothing but that."""
    headers = {**HEADERS, "Cross-Origin-Resource-Policy": "cross-origin", "Cache-Control": "no-store"}
    return PlainTextResponse("", headers=headers)
