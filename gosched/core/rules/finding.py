"""What a check of a record returns: the first thing that is wrong, where it is, and what to do.

Invariant: `str(finding)` is the line that the state machine answers with. Answers are part of the replicated state, so
a line stays as it is, word for word, for as long as masters of an earlier release may apply the same log. Those lines
have amounts in the units of records; `in_units` has them as people write them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

# Keys and places, as in a job file or a list of queues: ("tasks", "worker", "placement", "spread", 0, "level").
Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    #: Where the field is; empty for the record as a whole.
    path: Path = ()
    #: The field in words, for a line that shows no path; empty where `problem` names it.
    subject: str = ""
    #: What is wrong: the rest of the sentence that `subject` begins.
    problem: str
    #: `problem` with its amounts as people write them; empty: it has none.
    in_units: str = ""
    #: What to do about it; empty where `problem` says what is expected.
    advice: str = ""

    def __str__(self) -> str:
        line = self._with_advice(self.problem)
        return f"{self.subject} {line}" if self.subject else line

    @property
    def words(self) -> str:
        """Return the line without the subject, for a place that shows the path and is not replicated."""
        return self._with_advice(self.in_units or self.problem)

    def _with_advice(self, problem: str) -> str:
        return f"{problem}: {self.advice}" if self.advice else problem

    def within(self, subject: str, *path: str | int) -> Finding:
        """Return the finding as one of a record that holds the checked one."""
        joined = f"{subject} {self.subject}" if self.subject else subject
        return replace(self, path=(*path, *self.path), subject=joined)


def text_of(finding: Finding | None) -> str:
    """Return the line of a finding, or an empty string."""
    return "" if finding is None else str(finding)
