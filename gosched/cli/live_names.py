"""Names for completion that the cluster knows: of jobs, nodes, queues and tenants; and of contexts.

Invariant: whatever goes wrong, nothing is printed and no more than a second passes: somebody is typing.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem

from gosched.cli.connect import client_context
from gosched.config.errors import ConfigError

if TYPE_CHECKING:
    from gosched.api.job_query import JobQuery
    from gosched.client import GoSchedClient

WAIT_S = 1.0
_MOST_JOBS = 200


def _live_jobs(client: GoSchedClient) -> Iterable[str]:
    from gosched.api.job_query import JobQuery
    from gosched.cli.job_selection import LIVE

    return _names_of(client, JobQuery(states=LIVE))


def _listed_jobs(client: GoSchedClient) -> Iterable[str]:
    """Return the jobs that `job list` shows, for commands that also look at jobs that have ended."""
    from gosched.api.job_query import JobQuery
    from gosched.cli.job_list import ENDED_SHOWN_MS

    return _names_of(client, JobQuery(ended_since_ms=time.time_ns() // 1_000_000 - ENDED_SHOWN_MS))


def _names_of(client: GoSchedClient, query: JobQuery) -> Iterable[str]:
    """Return names, and TENANT/NAME of those that jobs of several tenants have."""
    jobs = dict.fromkeys((row.name, row.tenant) for rows in client.job_rows(query, limit=_MOST_JOBS) for row in rows)
    tenants = Counter(name for name, _ in jobs)
    return [name if tenants[name] == 1 else f"{tenant}/{name}" for name, tenant in jobs]


def _nodes(client: GoSchedClient) -> Iterable[str]:
    """Return ids, and the names that one node alone has."""
    nodes = [detail.node for detail in client.list_nodes()]
    names = Counter(node.name for node in nodes)
    return dict.fromkeys([*(node.id for node in nodes), *(name for name, count in names.items() if count == 1)])


def _queues(client: GoSchedClient) -> Iterable[str]:
    return [queue.path for queue in client.get_status().queues]


def _tenants(client: GoSchedClient) -> Iterable[str]:
    return [quota.quota.tenant for quota in client.list_quotas()]


#: What arguments and options are called in the commands.
_OF_CLUSTER: dict[str, Callable[[GoSchedClient], Iterable[str]]] = {
    "job": _listed_jobs,
    "jobs": _live_jobs,
    "node": _nodes,
    "nodes": _nodes,
    "queue": _queues,
    "queues": _queues,
    "tenant": _tenants,
    "tenants": _tenants,
}


def with_live_names(command: click.Command, *, deep: bool = True) -> click.Command:
    """Let the arguments and options of a command, and with `deep` of all below it, complete to names by what they are
    called."""
    for param in command.params:
        word = param.name or ""
        if word in _OF_CLUSTER or word == "context" or (word == "name" and "-context" in (command.name or "")):
            param.type = _LiveName(word)
    if deep and isinstance(command, click.Group):
        ctx = click.Context(command)
        for name in command.list_commands(ctx):
            if below := command.get_command(ctx, name):
                with_live_names(below)
    return command


class _LiveName(click.ParamType[str]):
    """Text that is the name of something in the cluster."""

    name = "text"

    def __init__(self, word: str) -> None:
        self._word = word

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        names = _of_cluster(ctx, self._word) if self._word in _OF_CLUSTER else _contexts()
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


def _of_cluster(ctx: click.Context, word: str) -> list[str]:
    from gosched.client.client import GoSchedClient
    from gosched.client.errors import GoSchedError
    from gosched.client.own_context import tls_of

    try:
        context = client_context(ctx)
        with GoSchedClient(context.endpoints, tls=tls_of(context), timeout_s=WAIT_S, fails_fast=True) as client:
            return list(_OF_CLUSTER[word](client))
    except (ConfigError, GoSchedError):
        return []


def _contexts() -> list[str]:
    from gosched.config.context import folder
    from gosched.config.contexts import read_contexts

    try:
        return list(read_contexts(folder() / "config.yaml").named)
    except ConfigError:
        return []
