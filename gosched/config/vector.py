"""Amounts by resource name: the vectors of queues and quotas, and the cluster's own resources of tasks and nodes.

Invariant: any name may be a resource of the cluster's own, but not one that is most likely a known name misspelt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from difflib import SequenceMatcher
from typing import Annotated, Any

from pydantic import BeforeValidator

from gosched.config.errors import shown
from gosched.config.quantity import cpu_millis, gpu_millis, memory_bytes, whole_amount
from gosched.config.validation import problem_at
from gosched.core.resources import AmountMap
from gosched.core.sharing import BUILT_IN, MODEL_PREFIX

CUSTOM = "custom resources"  # the alias of a model's field; has spaces, so that it is no name of a resource

_PARSERS: Mapping[str, Callable[[object], int]] = {
    "cpu": cpu_millis,
    "memory": memory_bytes,
    "storage": memory_bytes,
    "gpu": gpu_millis,
}
_NEAR = 0.75  # of difflib: `memroy` is near `memory`, and `tpu` is not near `cpu`


def vector(value: object) -> AmountMap:
    """Read `{cpu: 64, memory: 1Ti, gpu: 16, "gpu:h100": 8, fpga: 2}`. Zero is an amount: it stands for none at all."""
    if not isinstance(value, dict):
        raise ValueError(f"expected amounts such as {{cpu: 64, memory: 1Ti}}, got {shown(value)}")
    return tuple(sorted((key, _placed(_amount, key, item)) for key, item in value.items()))


def with_custom(value: Any, known: Iterable[str]) -> Any:
    """Return the mapping with every key that is not `known` moved to CUSTOM, as an AmountMap without zeros."""
    if not isinstance(value, dict):
        return value
    own = [key for key in value if key not in known]
    amounts = [(key, _placed(_custom_amount, key, value[key])) for key in own]
    rest = {key: item for key, item in value.items() if key in known}
    return {**rest, CUSTOM: tuple(sorted(pair for pair in amounts if pair[1]))}


def _amount(key: str, value: object) -> int:
    if key.startswith(MODEL_PREFIX):
        return gpu_millis(value)
    return _PARSERS[key](value) if key in _PARSERS else _custom_amount(key, value)


def _custom_amount(key: str, value: object) -> int:
    if near := is_taken_for(key):
        raise ValueError(f'unknown key (did you mean "{near}"?)')
    return whole_amount(value)


def is_taken_for(key: str) -> str:
    """Return the known name that this one is taken for; empty: it may be a resource of the cluster's own."""
    if key in BUILT_IN:
        return ""
    return next((known for known in BUILT_IN if _is_near(key.lower(), known)), "")


def _is_near(word: str, known: str) -> bool:
    return word.startswith(known) or known.startswith(word) or SequenceMatcher(None, word, known).ratio() >= _NEAR


def _placed(parse: Callable[[str, object], int], key: str, value: object) -> int:
    try:
        return parse(key, value)
    except ValueError as error:
        raise problem_at((key,), str(error)) from error


Vector = Annotated[AmountMap, BeforeValidator(vector)]
