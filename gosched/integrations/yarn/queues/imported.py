"""What an import of queues has found: the queues, and a note for each setting that they do not carry as it was."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from gosched.config.errors import ConfigError
from gosched.core.records.queue import Queue
from gosched.integrations.notes import Note

_MOST_WEIGHT = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Imported:
    """The queues of a file, parents before their children, and the notes in the order of the file."""

    queues: tuple[Queue, ...]
    notes: tuple[Note, ...]


def number(text: str, at: str) -> Fraction:
    """Read a number that is not negative. Raises ConfigError."""
    try:
        found = Fraction(text.strip())
    except (ValueError, ZeroDivisionError):
        raise ConfigError(f"{at}: expected a number, got {text.strip()[:60]!r}") from None
    if not 0 <= found <= 1 << 50:
        raise ConfigError(f"{at}: {text.strip()[:60]} is out of range")
    return found


def whole_weights(parts: Sequence[Fraction]) -> list[int]:
    """Return whole numbers in the proportion of `parts`, as small as they can be; 1 for a part of nothing."""
    scale = math.lcm(*[part.denominator for part in parts if part])
    wholes = [int(part * scale) for part in parts]
    common = math.gcd(*wholes) or 1
    most = max([whole // common for whole in wholes], default=1)
    if most <= _MOST_WEIGHT:
        return [max(1, whole // common) for whole in wholes]
    return [max(1, round(Fraction(whole // common * _MOST_WEIGHT, most))) for whole in wholes]
