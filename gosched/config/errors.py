"""The one exception for input of people: its text is one line that says where, what, and what to do."""

from __future__ import annotations

from collections.abc import Iterable


class ConfigError(Exception):
    """A setting, a config file or a job file that cannot be used."""

    #: What else is wrong with it.
    others: tuple[ConfigError, ...] = ()


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return ` (did you mean "count"?)`, or nothing where no known word is near."""
    import difflib  # slow, and for mistakes alone

    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f' (did you mean "{near[0]}"?)' if near else ""


def shown(value: object) -> str:
    """Return a value as it was written, on one line and short."""
    if value is None:
        return "nothing"
    return shown_key(repr(value) if isinstance(value, str) else str(value))


def shown_key(text: str) -> str:
    """Return text without quotes, on one line and short."""
    text = "".join(c if c.isprintable() else "?" for c in text[:100])
    return text if len(text) <= 60 else f"{text[:57]}..."
