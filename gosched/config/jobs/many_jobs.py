"""The jobs of one file, taken together: how many there are, that their names differ, and their order.

Invariant: a job that waits for another one of its file comes after it, as it could not be submitted otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from graphlib import CycleError, TopologicalSorter
from heapq import heapify, heappop, heappush
from itertools import pairwise

from gosched.config.errors import ConfigError
from gosched.config.tree import Document, read_documents
from gosched.core.spec.job_spec import JobSpec

MAX_JOBS_PER_FILE = 10_000  # as many as one request submits


def job_documents(text: bytes | str, source: str) -> list[Document]:
    """Return the documents of a job file, one for each job, at least one. Raise ConfigError."""
    documents = read_documents(text, source)
    if not documents:
        raise ConfigError(f"{source}: no job in it: write at least name and run")
    if len(documents) > MAX_JOBS_PER_FILE:
        raise ConfigError(f"{source}: {len(documents)} jobs; at most {MAX_JOBS_PER_FILE} in one file")
    return documents


def in_order(specs: Sequence[JobSpec], documents: Sequence[Document]) -> list[JobSpec]:
    """Return the jobs in their order in the file, but each after those that it waits for. Raise ConfigError."""
    names = [f"{spec.tenant}/{spec.name}" for spec in specs]
    if twice := find_equal_names(names, documents):
        raise twice[0]
    places = {name: place for place, name in enumerate(names)}

    def awaited(spec: JobSpec) -> list[int]:
        full = [wanted.job if "/" in wanted.job else f"{spec.tenant}/{wanted.job}" for wanted in spec.after]
        return [places[name] for name in full if name in places]

    graph = {place: awaited(spec) for place, spec in enumerate(specs)}
    sorter = TopologicalSorter(graph)
    try:
        sorter.prepare()
    except CycleError as error:
        circle: list[int] = list(reversed(error.args[1]))  # each waits for the next one
        chain = ", ".join(f"{specs[a].name} waits for {specs[b].name}" for a, b in pairwise(circle))
        raise documents[circle[0]].error(("after",), f"a cycle: {chain}; none of them could start") from None
    ready, ordered = list(sorter.get_ready()), list[JobSpec]()
    heapify(ready)
    while ready:
        place = heappop(ready)
        ordered.append(specs[place])
        sorter.done(place)
        for freed in sorter.get_ready():
            heappush(ready, freed)
    return ordered


def find_equal_names(names: Sequence[object], documents: Sequence[Document]) -> list[ConfigError]:
    """Return an error for each job whose name an earlier one of its tenant has in the file: of two live jobs with one
    name the second would be taken for the first, or be refused. `names`: TENANT/NAME, or what is equal to none."""
    first: dict[object, int] = {}
    found: list[ConfigError] = []
    for place, name in enumerate(names):
        if first.setdefault(name, place) == place:
            continue
        earlier = documents[first[name]]
        where = earlier.origins.get(("name",), earlier.source)
        own = str(name).partition("/")[2]
        problem = f"job {place + 1} of the file has the name of job {first[name] + 1}, {own} at {where}: rename one"
        found.append(documents[place].error(("name",), problem))
    return found
