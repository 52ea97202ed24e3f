"""Recorded pages and pictures: what is run, what is written, and that a failure is seen."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tools.docs.record import Failed, Shell, ShellEnded, recorded
from tools.docs.recording import LAST_SHOWN_S, LONGEST_GAP_S, ROWS, Line, paced, run, svg

PAGE = """\
Words stay.

```console
$ first --flag
what stood here before
$ cat >file <<END
> a line
> END
```

```sh
not run
```
"""


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    shell = Shell(tmp_path, dict(os.environ))
    yield shell
    shell.close()


def test_commands_of_a_page_are_run_in_order_and_their_output_replaces_the_old_one() -> None:
    ran: list[str] = []

    def answer(command: str) -> str:
        ran.append(command)
        return f"output {len(ran)}\n" if len(ran) == 1 else ""

    page = recorded(PAGE, answer)
    assert ran == ["first --flag", "cat >file <<END\na line\nEND"]
    assert "$ first --flag\noutput 1\n$ cat >file <<END\n> a line\n> END\n```" in page
    assert "what stood here before" not in page
    assert page.startswith("Words stay.")
    assert "not run" in page
    assert recorded(page, lambda command: f"again {command.split()[0]}").count("again") == 2


def test_the_shell_keeps_its_variables_and_files_and_sees_a_failure(shell: Shell) -> None:
    assert shell.run("X=1; echo one >file") == ""
    assert shell.run('printf "%s %s" "$X" "$(cat file)"') == "1 one\n"
    assert shell.run('false; echo "exit code $?"') == "exit code 1\n"
    with pytest.raises(Failed, match=r"(?s)\$ echo said; false.*said.*exit code 1") as failed:
        shell.run("echo said; false")
    assert (failed.value.output, failed.value.code) == ("said\n", 1)
    with pytest.raises(ShellEnded, match="exit 0"):
        shell.run("exit 0")


def test_a_command_is_recorded_as_a_terminal_shows_it() -> None:
    script = r"import sys; print('\033[32mgreen\033[0m <b>'); print(sys.stdout.isatty()); sys.exit(3)"
    *lines, (code, end) = run([sys.executable, "-c", script])
    assert [text for _, text in lines] == ["\x1b[32mgreen\x1b[0m <b>", "True"]
    assert (code, end) == (3, None)


def test_long_waits_are_shortened_and_short_ones_stay() -> None:
    lines = [Line(at_s=at, text="x") for at in (0.0, 0.2, 60.0, 60.1)]
    times = [line.at_s for line in paced(lines)]
    assert times == pytest.approx([0.0, 0.2, 0.2 + LONGEST_GAP_S, 0.3 + LONGEST_GAP_S])


def test_the_picture_is_well_formed_has_every_line_and_loads_nothing() -> None:
    lines = [Line(at_s=number / 10, text=f"\x1b[1;31mline {number}\x1b[0m & more") for number in range(ROWS + 4)]
    picture = svg(lines, title="a <command>")
    tree = ElementTree.fromstring(picture)
    texts = ["".join(one.itertext()) for one in tree.iter("{http://www.w3.org/2000/svg}text")]
    assert texts == [f"line {number} & more" for number in range(ROWS + 4)]
    assert 'fill="#ff7b72"' in picture
    assert f"{(ROWS + 3) / 10 + LAST_SHOWN_S:.1f}s" in picture
    assert "translateY(-72px)" in picture  # the last four lines have scrolled in
    assert re.findall(r"(?:href|src|url)\b", picture) == []
