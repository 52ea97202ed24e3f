"""Lines of logs do not depend on the pieces in which they come."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from gosched.api.log_lines import MAX_LINE_BYTES, LogLine, LogLines


@dataclass
class At:
    offset: int
    at_ms: int


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_lines_and_their_times_do_not_depend_on_the_pieces(size: int) -> None:
    text, times = b"one\n\ntwo and\nthe end", [At(0, 10), At(5, 20), At(7, 30), At(13, 40), At(15, 50)]
    lines, found = LogLines[str](), []
    for at in range(0, len(text), size):
        end = at + size
        mine = [t for t in times if t.offset < end]
        begun = max(i for i, t in enumerate(mine) if t.offset <= at)
        found += lines.add("a", text[at:end], at, mine[begun:])
    assert found == [LogLine(b"one", 10), LogLine(b"", 10), LogLine(b"two and", 20)]
    assert lines.finish() == [("a", LogLine(b"the end", 40))]


def test_streams_are_kept_apart_and_a_line_without_an_end_is_cut() -> None:
    lines = LogLines[str]()
    assert lines.add("a", b"half") == []
    assert lines.add("b", b" a line\n") == [LogLine(b" a line")]
    assert lines.add("a", b" done\n") == [LogLine(b"half done")]
    assert len(lines.add("a", b"x" * (MAX_LINE_BYTES + 1))) == 1
    assert lines.finish() == []
