"""Submitting a job from the page: from a form or from YAML, with its plan shown before.

Invariant: only a script of this site can plan or submit: a request needs a header that a browser adds for no other
site. The jobs of one text are all submitted or none; the same text from the same page is submitted once.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import parse_qsl, quote

from starlette.requests import Request
from starlette.responses import Response

from gosched.api.forecast import JobPlan
from gosched.config import ConfigError, parse_job_file
from gosched.config.jobs.job_model import PRIORITY_CLASSES
from gosched.core.spec.job_spec import JobSpec
from gosched.master.base.callers import Caller, denied
from gosched.master.base.errors import ApiError, invalid
from gosched.master.http.call import CALL, read_body
from gosched.master.web.job_head import find_job
from gosched.master.web.job_logs import spec_text
from gosched.master.web.page import Asked, NoSuchPage
from gosched.master.web.sources import Sources
from gosched.wire.codec import to_message, to_record
from gosched.wire.v1 import scheduler_pb2, types_pb2

MAX_TEXT_BYTES = 256 * 1024
MAX_JOBS = 100
SEEN_S = 2.0  # how long it waits until this master knows the job, too

_CLIENT = "web"
_MAX_FIELDS = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitView:
    """The form."""

    queues: tuple[str, ...]
    priorities: tuple[str, ...]
    #: Of this showing of the form.
    nonce: str
    #: A job file to begin with; empty: the form.
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanView:
    """What would become of the jobs."""

    plan: JobPlan | None
    #: Why they cannot be submitted, in one line; empty: they can.
    problem: str
    #: The job file that the form makes; empty: it was written by hand.
    text: str


async def submit_page(sources: Sources, asked: Asked) -> SubmitView:
    """Return the form; `like` names a job whose spec it begins with."""
    inner = {queue.rpartition(".")[0] for queue in sources.state.queues}
    leaves = sorted(path for path in sources.state.queues if path not in inner)
    try:
        text = spec_text(find_job(sources, asked.caller, asked.query.text("like")).spec)
    except NoSuchPage:  # the form begins empty then
        text = ""
    return SubmitView(queues=tuple(leaves), priorities=tuple(PRIORITY_CLASSES), nonce=secrets.token_hex(8), text=text)


async def plan_of(sources: Sources, request: Request) -> PlanView:
    """Return what would become of the jobs of a request. Raises ApiError for one that is not from this site."""
    fields = await _fields(request)
    text = "" if fields.get("mode") == "yaml" else form_text(fields)
    try:
        specs = await _specs(fields)
        message = scheduler_pb2.PlanJobRequest(specs=[to_message(spec, types_pb2.JobSpec) for spec in specs])
        answer = await sources.calls.call("PlanJob", message, _caller(request))
    except (ApiError, ConfigError) as error:
        return PlanView(plan=None, problem=_words(error), text=text)
    return PlanView(plan=to_record(answer, JobPlan), problem="", text=text)


async def submitted(sources: Sources, request: Request) -> PlanView | Response:
    """Submit the jobs of a request; send the browser to their page. Raises ApiError for one that is not from here."""
    fields = await _fields(request)
    try:
        specs = await _specs(fields)
        answer = await sources.calls.call("SubmitJobs", _submission(fields, specs), _caller(request))
        problems = [one.problem for one in answer.outcomes if one.problem]
        if problems:
            raise invalid("; ".join(problems[:5]))
    except (ApiError, ConfigError) as error:
        return PlanView(plan=None, problem=_words(error), text="")
    await _seen(sources, answer.revision)
    ids = [outcome.job_id for outcome in answer.outcomes]
    path = f"/jobs/{quote(ids[0], safe='')}" if len(ids) == 1 else "/jobs?sort=newest"
    return Response(status_code=200, headers={"HX-Redirect": path})


def form_text(fields: Mapping[str, str]) -> str:
    """Return the job file that the fields of the form describe. JSON's texts are YAML's, too."""
    lines = [f"{key}: {json.dumps(fields[key])}" for key in ("name", "queue", "tenant") if fields.get(key)]
    if fields.get("priority"):
        lines.append(f"priority: {json.dumps(fields['priority'])}")
    count = fields.get("count", "")
    if count and count != "1":
        lines.append(f"count: {_number(count)}")
        if not fields.get("gang"):
            lines.append("gang: {min: 1}")
    if fields.get("image"):
        lines.append(f"image: {json.dumps(fields['image'])}")
    asked = [f"{key}: {_number(fields[key])}" for key in ("cpu", "memory", "gpu") if fields.get(key)]
    if asked:
        lines.append(f"resources: {{{', '.join(asked)}}}")
    if fields.get("estimate"):
        lines.append(f"estimate: {json.dumps(fields['estimate'])}")
    if fields.get("run"):
        lines.append(f"run: {json.dumps(fields['run'])}")
    return "\n".join(lines) + "\n"


def _number(text: str) -> str:
    """Return a number as it is, and anything else as a text."""
    return text if text.replace(".", "", 1).isdigit() and text.isascii() else json.dumps(text)


async def _fields(request: Request) -> dict[str, str]:
    if "hx-request" not in request.headers:
        raise denied("jobs are submitted here by the page's own script; programs use POST /api/v1/jobs")
    body = await read_body(request, MAX_TEXT_BYTES)
    try:
        pairs = parse_qsl(body.decode("ascii"), keep_blank_values=True, strict_parsing=True, max_num_fields=_MAX_FIELDS)
    except ValueError as error:
        raise invalid(f"the body is no form: {error}") from error
    return {name: value.strip() if name != "yaml" else value for name, value in pairs}


async def _specs(fields: Mapping[str, str]) -> list[JobSpec]:
    by_hand = fields.get("mode") == "yaml"
    text, source = (fields.get("yaml", ""), "YAML") if by_hand else (form_text(fields), "form")
    specs = await asyncio.to_thread(parse_job_file, text.replace("\r\n", "\n"), source)
    if len(specs) > MAX_JOBS:
        raise ConfigError(f"{len(specs)} jobs; at most {MAX_JOBS} are submitted here: use goschedctl submit")
    return specs


def _submission(fields: Mapping[str, str], specs: list[JobSpec]) -> scheduler_pb2.SubmitJobsRequest:
    messages = [to_message(spec, types_pb2.JobSpec) for spec in specs]
    digest = hashlib.sha256(fields.get("nonce", "").encode())
    for message in messages:
        digest.update(message.SerializeToString(deterministic=True))
    return scheduler_pb2.SubmitJobsRequest(
        specs=messages, client_id=_CLIENT, request_id=digest.hexdigest()[:32], all_or_nothing=True
    )


async def _seen(sources: Sources, revision: int) -> None:
    """Wait a little until this master has applied a revision, so that its page of the job is there."""
    loop = asyncio.get_running_loop()
    ends = loop.time() + SEEN_S
    while sources.state.revision < revision and loop.time() < ends:
        await asyncio.sleep(0.02)


def _caller(request: Request) -> Caller:
    caller: Caller = request.scope[CALL].caller
    return caller


def _words(error: ApiError | ConfigError) -> str:
    return error.detail if isinstance(error, ApiError) else str(error)
