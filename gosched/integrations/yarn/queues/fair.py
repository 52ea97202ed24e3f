"""Queues of a FairScheduler as ours.

A weight means the same in both. A minimum is a floor of the share there; here it is a guarantee that comes first, and
what is left is divided by weight.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from xml.etree.ElementTree import Element

from gosched.config.errors import ConfigError
from gosched.core.records.queue import Queue, QueueOrder, QueueType
from gosched.integrations.notes import Note
from gosched.integrations.yarn.queues.amounts import Amounts, read_amounts
from gosched.integrations.yarn.queues.fair_notes import DEFAULTS, OF_QUEUE, UNKNOWN
from gosched.integrations.yarn.queues.imported import Imported, number, whole_weights
from gosched.integrations.yarn.queues.naming import Names

_MAX_DEPTH = 32
_QUEUES = ("queue", "pool")
_POLICIES = {"fair": QueueOrder.FAIR, "drf": QueueOrder.FAIR, "fifo": QueueOrder.PRIORITY}
_ALL = Fraction(100)


@dataclass(slots=True, kw_only=True)
class _File:
    source: str
    names: Names
    notes: list[Note]
    queues: list[Queue]
    #: What queues have that do not say it.
    max_apps: str
    max_resources: str
    policy: str


def fair_queues(root: Element, source: str) -> Imported:
    """Return the queues of a fair-scheduler.xml. Raises ConfigError."""
    file = _File(
        source=source,
        names=Names(source),
        notes=[],
        queues=[],
        max_apps=_text(root, "queueMaxAppsDefault"),
        max_resources=_text(root, "queueMaxResourcesDefault"),
        policy=_text(root, "defaultQueueSchedulingPolicy", "fair"),
    )
    topmost = [element for element in root if element.tag in _QUEUES]
    if len(topmost) == 1 and topmost[0].get("name") == "root":
        _settings(file, topmost[0], "root")
        topmost = [element for element in topmost[0] if element.tag in _QUEUES]
    if not topmost:
        raise ConfigError(f"{source}: no <queue> in it: is this a fair-scheduler.xml?")
    _children(file, topmost, "", _ALL, 1)
    for element in root:
        if element.tag not in _QUEUES:
            advice = DEFAULTS.get(str(element.tag), UNKNOWN)
            if advice:
                file.notes.append(Note(name=f"<{element.tag}>", value=(element.text or "").strip(), advice=advice))
    return Imported(queues=tuple(file.queues), notes=tuple(file.notes))


def _children(file: _File, elements: list[Element], path: str, above_pct: Fraction, depth: int) -> None:
    """Read siblings and those below them. `above_pct`: what their parent may hold, of the cluster."""
    if depth > _MAX_DEPTH:
        raise ConfigError(f"{file.source}: more than {_MAX_DEPTH} levels of queues")
    written = [_text(element, "weight", "1") for element in elements]
    places = [f"{file.source}: weight of {element.get('name')}" for element in elements]
    weights = whole_weights([number(text, at) for text, at in zip(written, places, strict=True)])
    for element, weight in zip(elements, weights, strict=True):
        name = element.get("name", "").strip()
        if not name:
            raise ConfigError(f"{file.source}: a <queue> without a name")
        own = file.names.path(path, name)
        below = [child for child in element if child.tag in _QUEUES]
        ceiling_pct = _queue(file, element, own, weight, above_pct, is_leaf=not below)
        _children(file, below, own, ceiling_pct, depth + 1)


def _queue(file: _File, element: Element, path: str, weight: int, above_pct: Fraction, *, is_leaf: bool) -> Fraction:
    """Add a queue, and return what it may hold, in percent of the cluster."""
    least = _amounts(file, element, "minResources", path, "")
    most = _amounts(file, element, "maxResources", path, file.max_resources if is_leaf else "")
    if least.percent is not None or least.percents:
        _note(file, element, "minResources", path, "left out: write what is guaranteed in amounts (guaranteed)")
    if least.amounts:
        _note(file, element, "minResources", path, "guaranteed: comes first, and the rest is divided by weight")
    if most.percents:
        _note(
            file, element, "maxResources", path, "left out: write amounts (limit), or one percentage of all resources"
        )
    ceiling_pct = above_pct if most.percent is None else min(above_pct, most.percent)
    max_pct = max(1, min(100, math.ceil(_ALL * ceiling_pct / above_pct))) if above_pct else 100
    if most.percent is not None and _ALL * ceiling_pct / above_pct != max_pct:
        _note(file, element, "maxResources", path, f"its ceiling is {max_pct} % of its parent's: whole ones only")
    policy = _text(element, "schedulingPolicy", file.policy).lower()
    if policy not in _POLICIES:
        _note(file, element, "schedulingPolicy", path, "left out: fair, drf and fifo are known")
    apps = _text(element, "maxRunningApps", file.max_apps)
    running = int(number(apps, f"{file.source}: maxRunningApps of {path}")) if apps else 0
    if apps and not running:
        _note(file, element, "maxRunningApps", path, "left out: a queue cannot hold back all jobs")
    file.queues.append(
        Queue(
            path=path,
            type=QueueType.CAPACITY if least.amounts else QueueType.FAIR,
            weight=weight,
            max_pct=max_pct,
            guaranteed=least.amounts,
            limit=most.amounts,
            order=_POLICIES.get(policy, QueueOrder.FAIR) if is_leaf else QueueOrder.UNSPECIFIED,
            max_running_jobs=running,
        )
    )
    _settings(file, element, path)
    return ceiling_pct


def _settings(file: _File, element: Element, path: str) -> None:
    """Note what else a queue says."""
    for child in element:
        advice = OF_QUEUE.get(str(child.tag), UNKNOWN)
        if child.tag not in _QUEUES and advice:
            _note(file, element, str(child.tag), path, advice)


def _note(file: _File, element: Element, tag: str, path: str, advice: str) -> None:
    file.notes.append(Note(name=f"<{tag}> of {path}", value=_text(element, tag), advice=advice))


def _amounts(file: _File, element: Element, tag: str, path: str, default: str) -> Amounts:
    text = _text(element, tag, default)
    return read_amounts(text, f"{file.source}: {tag} of {path}") if text else Amounts()


def _text(element: Element, tag: str, default: str = "") -> str:
    return (element.findtext(tag) or "").strip() or default
