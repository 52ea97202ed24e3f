"""A file of YARN's queues, whichever scheduler it is of.

Invariant: no entity and no other file is read: what a file says is in it.
"""

from __future__ import annotations

from xml.etree import ElementTree

from gosched.config.errors import ConfigError
from gosched.core.rules.queues import check_queues, check_queues_size
from gosched.integrations.notes import Note
from gosched.integrations.yarn.queues.capacity import capacity_queues
from gosched.integrations.yarn.queues.fair import fair_queues
from gosched.integrations.yarn.queues.imported import Imported

MAX_BYTES = 4 << 20


def read_queues(content: bytes, source: str) -> Imported:
    """Return the queues of a capacity-scheduler.xml or a fair-scheduler.xml. Raises ConfigError."""
    root = _parsed(content, source)
    if root.tag == "configuration":
        properties, included = _properties(root, source)
        found = capacity_queues(properties, source)
        found = Imported(queues=found.queues, notes=(*included, *found.notes))
    elif root.tag == "allocations":
        found = fair_queues(root, source)
    else:
        raise ConfigError(f"{source}: expected <configuration> or <allocations>, got <{str(root.tag)[:60]}>")
    if wrong := check_queues(found.queues) or check_queues_size(found.queues):
        raise ConfigError(f"{source}: these queues cannot be ours: {wrong.words}")
    return found


def _parsed(content: bytes, source: str) -> ElementTree.Element:
    if len(content) > MAX_BYTES:
        raise ConfigError(f"{source}: larger than {MAX_BYTES >> 20} MiB")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ConfigError(f"{source}: not in UTF-8") from error
    if "<!DOCTYPE" in text or "<!ENTITY" in text:
        raise ConfigError(f"{source}: has a DOCTYPE: take it out, entities are not read")
    try:
        return ElementTree.fromstring(text)  # noqa: S314 - without a DOCTYPE there are no entities
    except (ElementTree.ParseError, ValueError, RecursionError) as error:  # ValueError: names an encoding beside UTF-8
        raise ConfigError(f"{source}: not XML: {error}") from error


def _properties(root: ElementTree.Element, source: str) -> tuple[dict[str, str], list[Note]]:
    """Return the properties of a configuration of Hadoop, and what it would take from elsewhere. The last of one name
    counts, as in Hadoop."""
    properties: dict[str, str] = {}
    notes = []
    for element in root:
        if element.tag == "property":
            name = (element.findtext("name") or "").strip()
            if not name:
                raise ConfigError(f"{source}: a property without a name")
            properties[name] = (element.findtext("value") or "").strip()
        else:
            tag = str(element.tag).rpartition("}")[2]
            advice = "not read: import the file that it names into this one first"
            notes.append(Note(name=f"<{tag}>", value=str(element.get("href", "")), advice=advice))
    return properties, notes
