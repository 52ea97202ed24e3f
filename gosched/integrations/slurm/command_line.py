"""Reads options of Slurm's commands: on the command line as getopt does, in the #SBATCH lines of a script, and in the
environment."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from gosched.config.errors import ConfigError, suggestion
from gosched.integrations.slurm.options import Option, Takes, Verdict

T = TypeVar("T")

_DIRECTIVE = "#SBATCH"
#: Variables that stand between the script and the command line, by what follows SBATCH_ or SALLOC_.
_VARIABLES = {
    "ACCOUNT": "account",
    "ARRAY_INX": "array",
    "CONSTRAINT": "constraint",
    "EXPORT": "export",
    "GRES": "gres",
    "JOB_NAME": "job-name",
    "OPEN_MODE": "open-mode",
    "PARTITION": "partition",
    "QOS": "qos",
    "SIGNAL": "signal",
    "TIMELIMIT": "time",
}


@dataclass(slots=True)
class Given:
    """Options as they were given: the last one wins."""

    values: dict[str, str] = field(default_factory=dict)
    #: Where each was given, for errors.
    origins: dict[str, str] = field(default_factory=dict)
    #: Lines for people on options without effect.
    warnings: list[str] = field(default_factory=list)

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def get(self, name: str) -> str:
        """Return the value; empty: it was not given, or takes none."""
        return self.values.get(name, "")

    def read(self, name: str, reader: Callable[[str], T]) -> T:
        """Return the value as a reader reads it. Raises ConfigError."""
        try:
            return reader(self.get(name))
        except ValueError as error:
            raise self.problem(name, str(error)) from None

    def problem(self, name: str, words: str) -> ConfigError:
        return ConfigError(f"{self.origins.get(name, '')}--{name}: {words}")

    def add(self, option: Option, value: str, origin: str) -> None:
        """Take an option. Raises ConfigError for one that is refused."""
        if option.verdict is Verdict.REFUSED and not _is_nothing(option, value):
            raise ConfigError(f"{origin}--{option.name} is refused: {option.note}")
        if option.verdict is Verdict.IGNORED:
            self.warnings.append(f"{origin}--{option.name} has no effect: {option.note}")
        self.values[option.name], self.origins[option.name] = value, origin


def read_words(table: Sequence[Option], words: Sequence[str], given: Given, origin: str = "") -> list[str]:
    """Take the options before the first word that is none, and return the words from there on. Raises ConfigError."""
    by_name = {option.name: option for option in table}
    by_letter = {option.short: option for option in table if option.short}
    left = list(words)
    while left and left[0].startswith("-") and left[0] != "-":
        word = left.pop(0)
        if word == "--":
            return left
        if word.startswith("--"):
            name, equals, value = word[2:].partition("=")
            option = by_name.get(name) or _by_prefix(by_name, name, origin)
            if option.takes is Takes.NOTHING and equals:
                raise ConfigError(f"{origin}--{option.name} takes no value")
            if option.takes is Takes.VALUE and not equals:
                value = _next(left, option, origin)
            given.add(option, value, origin)
            continue
        letters = word[1:]
        while letters:
            found = by_letter.get(letters[0])
            if found is None:
                raise ConfigError(f"{origin}there is no option -{letters[0]}")
            rest = letters[1:].removeprefix("=")
            if found.takes is Takes.NOTHING:
                given.add(found, "", origin)
                letters = letters[1:]
                continue
            given.add(found, rest or (_next(left, found, origin) if found.takes is Takes.VALUE else ""), origin)
            break
    return left


def read_script(table: Sequence[Option], text: str, name: str, given: Given) -> None:
    """Take the options of the #SBATCH lines, which end with the script's first command. Raises ConfigError."""
    for number, words in directives(text, name):
        origin = f"{name}, line {number}: "
        if words[0] in ("hetjob", "packjob"):
            raise ConfigError(f"{origin}{words[0]} is refused: a job has one part")
        if left := read_words(table, words, given, origin):
            raise ConfigError(f"{origin}{left[0]!r} is no option")


def read_environment(table: Sequence[Option], environment: Mapping[str, str], given: Given, program: str) -> None:
    """Take the options of a program's variables, such as SBATCH_PARTITION. Raises ConfigError."""
    by_name = {option.name: option for option in table}
    for ending, name in _VARIABLES.items():
        if name in by_name and (variable := f"{program.upper()}_{ending}") in environment:
            given.add(by_name[name], environment[variable], f"{variable}: ")


def directives(text: str, name: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the number and the words of each line of options. Raises ConfigError."""
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith(_DIRECTIVE) and line[len(_DIRECTIVE) :][:1].isspace():
            if words := _words(line[len(_DIRECTIVE) :], f"{name}, line {number}: "):
                yield number, words
        elif line.strip() and not line.lstrip().startswith("#"):
            return


def _words(line: str, origin: str) -> list[str]:
    """Return the words before a comment, which may hold an apostrophe."""
    lexer = shlex.shlex(line, posix=True)
    lexer.whitespace_split, lexer.commenters = True, ""
    found: list[str] = []
    try:
        for word in lexer:
            if word.startswith("#"):
                break
            found.append(word)
    except ValueError as error:
        raise ConfigError(f"{origin}cannot be split into words: {error}") from None
    return found


def _by_prefix(by_name: Mapping[str, Option], name: str, origin: str) -> Option:
    """Return the one option that begins so, as getopt does. Raises ConfigError."""
    found = [option for known, option in by_name.items() if known.startswith(name)] if name else []
    if len(found) == 1:
        return found[0]
    if found:
        raise ConfigError(f"{origin}--{name} may be {', '.join(f'--{option.name}' for option in found)}")
    raise ConfigError(f"{origin}there is no option --{name}{suggestion(name, by_name)}")


def _next(left: list[str], option: Option, origin: str) -> str:
    if not left:
        raise ConfigError(f"{origin}--{option.name} needs a value")
    return left.pop(0)


def _is_nothing(option: Option, value: str) -> bool:
    """Return whether a refused option asks for nothing."""
    return option.name in ("mail-type", "input") and value.upper() == "NONE"
