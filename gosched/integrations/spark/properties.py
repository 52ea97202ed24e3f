"""Properties files, as java.util.Properties and then Spark read them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gosched.config.errors import ConfigError, shown

_BLANKS = " \t\f"
_LINE_END = re.compile(r"\r\n|\r|\n")
_PARTS = re.compile(r"((?:\\.|[^\\=: \t\f])*)[ \t\f]*(?:[=:][ \t\f]*)?(.*)", re.DOTALL)
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_SHORT = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
# Spark takes these off the ends of a value: all up to the space, but for the ends of lines.
_TRIMMED = "".join(chr(code) for code in range(33) if chr(code) not in "\r\n")


def read_properties(text: str) -> dict[str, str]:
    """Return the settings; of a repeated one the last. Raises ConfigError."""
    found = {}
    for line in _logical_lines(text):
        parts = _PARTS.fullmatch(line)
        assert parts is not None, "every line matches: a backslash at its end goes on with the next one"
        found[_unescaped(parts[1])] = _unescaped(parts[2]).strip(_TRIMMED)
    return found


def _logical_lines(text: str) -> Iterator[str]:
    """Yield lines without comments. One with an odd number of backslashes at its end goes on with the next one, without
    what is blank before it."""
    kept, goes_on = "", False
    for natural in _LINE_END.split(text):
        line = natural.lstrip(_BLANKS)
        if not goes_on and (not line or line[0] in "#!"):
            continue
        backslashes = len(line) - len(line.rstrip("\\"))
        goes_on = backslashes % 2 == 1
        kept += line.removesuffix("\\") if goes_on else line
        if not goes_on:
            yield kept
            kept = ""
    if kept:
        yield kept


def _unescaped(text: str) -> str:
    if "\\" not in text:
        return text

    def meant(escape: re.Match[str]) -> str:
        word = escape[1]
        if word == "u":
            raise ConfigError(f"a properties file: \\u needs four hexadecimal digits, in {shown(text)}")
        return chr(int(word[1:], 16)) if len(word) > 1 else _SHORT.get(word, word)

    units = _ESCAPE.sub(meant, text).encode("utf-16", "surrogatepass")  # two escapes may be one character
    return units.decode("utf-16", "replace")
