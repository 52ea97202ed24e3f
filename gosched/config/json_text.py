"""JSON text into the same plain values as YAML text, under the same bounds.

Invariant: a number that YAML would keep as text (too many digits, an exponent) is text here too, so that no number is
ever large or inexact, and a key that is given twice is an error.
"""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

from gosched.config.errors import ConfigError, shown_key
from gosched.config.tree import MAX_DEPTH

_INTEGER = re.compile(r"-?[0-9]{1,19}")
_SURROGATE = re.compile("[\ud800-\udfff]")
_FRACTION = re.compile(r"-?[0-9]{1,18}\.[0-9]{1,18}")


def read_json(raw: bytes, source: str, line: int = 0) -> Any:
    """Return the value of a JSON text, made of dict, list, str, int, Decimal, bool and None. `line`: the only one of
    the source that it takes; 0: it takes the whole. Raise ConfigError."""
    where = f"{source}:{line}" if line else source
    try:
        value = json.loads(
            raw.decode("utf-8"),
            parse_int=_integer,
            parse_float=_fraction,
            parse_constant=_no_constant,
            object_pairs_hook=_object,
        )
    except UnicodeDecodeError as error:
        raise ConfigError(f"{where}: not UTF-8 (byte {raw[error.start]:#04x} at {error.start})") from error
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{source}:{line or error.lineno}: not valid JSON: {error.msg} at column {error.colno}"
        ) from error
    except RecursionError:
        raise ConfigError(f"{where}: nested more than {MAX_DEPTH} deep") from None
    except ValueError as error:
        raise ConfigError(f"{where}: not valid JSON: {error}") from error
    _check(value, where)
    return value


def _integer(text: str) -> int | str:
    return int(text) if _INTEGER.fullmatch(text) else text


def _fraction(text: str) -> Decimal | str:
    return Decimal(text) if _FRACTION.fullmatch(text) else text


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is no number of JSON")


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"{shown_key(key)}: is given twice")
        found[key] = value
    return found


def _check(value: Any, source: str) -> None:
    """Refuse what is nested too deep, and halves of a pair of surrogates, which no text in UTF-8 has."""
    waiting = [(value, 0)]
    while waiting:
        item, depth = waiting.pop()
        if depth > MAX_DEPTH:
            raise ConfigError(f"{source}: nested more than {MAX_DEPTH} deep")
        if isinstance(item, dict):
            waiting += [(inner, depth + 1) for pair in item.items() for inner in pair]
        elif isinstance(item, list):
            waiting += [(inner, depth + 1) for inner in item]
        elif isinstance(item, str) and _SURROGATE.search(item):
            raise ConfigError(f"{source}: not valid JSON: half of a pair of surrogates in {shown_key(ascii(item))}")
