"""The pages of jobs, and what their scripts ask for."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response

from gosched.master.web.job import job_page
from gosched.master.web.job_logs import logs_page, spec_page
from gosched.master.web.job_usage import usage_now, usage_page
from gosched.master.web.jobs import jobs_page
from gosched.master.web.page import NoSuchPage, Page, asked_of
from gosched.master.web.security import HEADERS
from gosched.master.web.sources import Sources
from gosched.master.web.submit import PlanView, plan_of, submit_page, submitted

JOB_PAGES = (
    Page(path="/jobs", section="Jobs", template="jobs.html", build=jobs_page),
    Page(path="/jobs/{job}", section="Jobs", template="job.html", build=job_page),
    Page(path="/jobs/{job}/logs", section="Jobs", template="job_logs.html", build=logs_page),
    Page(path="/jobs/{job}/usage", section="Jobs", template="job_usage.html", build=usage_page),
    Page(path="/jobs/{job}/spec", section="Jobs", template="job_spec.html", build=spec_page),
    Page(path="/submit", section="Jobs", template="submit.html", build=submit_page, live=False),
)
_PLAN = Page(path="/ui/plan", section="Jobs", template="plan.html", build=submit_page, live=False)
_HEADERS = {**HEADERS, "Cache-Control": "no-store"}

#: Returns the answer that shows a view in the template of a page, without the frame around it.
Shown = Callable[[Page, Request, object], Awaitable[Response]]


def add_job_routes(router: APIRouter, sources: Sources, shown: Shown) -> None:
    """Add the routes that the scripts of these pages use."""

    async def usage(request: Request) -> Response:
        asked = asked_of(sources, request)
        try:
            return JSONResponse(await usage_now(sources, asked), headers=_HEADERS)
        except NoSuchPage as error:
            return PlainTextResponse(f"{error}\n", status_code=404, headers=_HEADERS)

    async def plan(request: Request) -> Response:
        return await shown(_PLAN, request, await plan_of(sources, request))

    async def submit(request: Request) -> Response:
        done = await submitted(sources, request)
        return await shown(_PLAN, request, done) if isinstance(done, PlanView) else done

    router.add_route("/ui/jobs/{job}/usage", usage, methods=["GET"])
    router.add_route("/ui/plan", plan, methods=["POST"])
    router.add_route("/ui/submit", submit, methods=["POST"])
