"""Records a command in a terminal as an animated SVG: `python -m tools.docs.recording FILE.svg -- COMMAND...`.

The picture needs nothing but a browser: the lines appear by CSS, at the pace of the command, and start again after a
while. Where animation is not wanted (`prefers-reduced-motion`), the end stands still.
"""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import click
from rich.console import Console
from rich.text import Text

COLUMNS, ROWS = 100, 26
LONGEST_GAP_S = 0.8  # between two lines; longer waits are shortened
LAST_SHOWN_S = 6.0  # before it starts again
_WIDTH, _HEIGHT, _MARGIN, _BAR = 8.4, 18.0, 14.0, 30.0
#: Black, red, green, yellow, blue, magenta, cyan, white; the bright ones are the same.
_COLOURS = ("#6e7681", "#ff7b72", "#7ee787", "#e3b341", "#79c0ff", "#d2a8ff", "#76e3ea", "#e6edf3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One line of a terminal."""

    #: Since the start, after long waits were shortened.
    at_s: float
    #: With the escape sequences of colours.
    text: str


@click.command()
@click.argument("target", type=click.Path(path_type=Path))
@click.argument("words", nargs=-1, required=True)
@click.option("--as", "shown_as", help="What stands at the prompt instead of the command.")
def main(target: Path, words: tuple[str, ...], shown_as: str | None) -> None:
    """Run a command, write what it prints to TARGET, and end with its exit code."""
    shown = shown_as or " ".join(words)
    lines = [Line(at_s=0.0, text=f"\x1b[1m$ {shown}\x1b[0m")]
    code = 0
    for moment, text in run(words):
        if text is None:
            code = int(moment)
        else:
            click.echo(text)
            lines.append(Line(at_s=moment, text=text))
    if code == 0:
        target.write_text(svg(paced(lines), title=shown))
    sys.exit(code)


def run(words: Sequence[str]) -> Iterator[tuple[float, str | None]]:
    """Yield each line that a command prints in a terminal, with its time; last, its exit code with None."""
    outer, inner = pty.openpty()
    fcntl.ioctl(inner, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    env = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(COLUMNS)}
    env.pop("NO_COLOR", None)
    began = time.monotonic()
    with subprocess.Popen(words, stdin=inner, stdout=inner, stderr=inner, env=env, start_new_session=True) as command:
        os.close(inner)
        rest = b""
        while chunk := _read(outer):
            *whole, rest = (rest + chunk).replace(b"\r\n", b"\n").split(b"\n")
            for line in whole:
                yield time.monotonic() - began, line.decode(errors="replace").expandtabs()
        os.close(outer)
    yield command.returncode, None


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65_536)
    except OSError:  # nothing has the terminal open any more
        return b""


def paced(lines: Sequence[Line]) -> list[Line]:
    """Return the lines with long waits shortened."""
    shown, before, now = [], 0.0, 0.0
    for line in lines:
        now += min(line.at_s - before, LONGEST_GAP_S)
        before = line.at_s
        shown.append(Line(at_s=now, text=line.text))
    return shown


def svg(lines: Sequence[Line], *, title: str) -> str:
    """Return the picture: a window of ROWS lines, which scrolls."""
    width, height = COLUMNS * _WIDTH + 2 * _MARGIN, min(len(lines), ROWS) * _HEIGHT + _BAR + 2 * _MARGIN
    length_s = lines[-1].at_s + LAST_SHOWN_S
    body = "\n".join(_shown(number, line, length_s) for number, line in enumerate(lines))
    lights = "".join(
        f'<circle cx="{20 + 20 * place}" cy="{_BAR / 2}" r="6" fill="{colour}"/>'
        for place, colour in enumerate(("#ff5f56", "#ffbd2e", "#27c93f"))
    )
    last = max(0, len(lines) - ROWS)
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{escape(title)}">
<style>
text {{ font: 14px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #e6edf3;
  white-space: pre; }}
.scroll {{ transform: translateY({-last * _HEIGHT:g}px); animation: scroll {length_s:.1f}s step-end infinite; }}
@keyframes scroll {{ {_keyframes(lines, length_s)} }}
{_appearances(lines, length_s)}
@media (prefers-reduced-motion: reduce) {{ .scroll, .line {{ animation: none !important; }} }}
</style>
<rect width="{width:g}" height="{height:g}" rx="8" fill="#0d1117"/>
{lights}
<svg x="0" y="{_BAR:g}" width="{width:g}" height="{height - _BAR:g}" overflow="hidden"><g class="scroll">
{body}
</g></svg>
</svg>
"""


def _keyframes(lines: Sequence[Line], length_s: float) -> str:
    """Return how far the window has scrolled when each line appears."""
    steps = [(0.0, 0)]
    steps += [(100 * line.at_s / length_s, number - ROWS + 1) for number, line in enumerate(lines) if number >= ROWS]
    last = steps[-1][1]
    return " ".join(f"{at:.2f}% {{ transform: translateY({-by * _HEIGHT:g}px) }}" for at, by in [*steps, (100, last)])


def _appearances(lines: Sequence[Line], length_s: float) -> str:
    rules = []
    for number, line in enumerate(lines):
        at = 100 * line.at_s / length_s
        if at > 0:
            rules.append(f"@keyframes l{number} {{ 0% {{ opacity: 0 }} {at:.2f}%, 100% {{ opacity: 1 }} }}")
    return "\n".join(rules)


def _shown(number: int, line: Line, length_s: float) -> str:
    parts = []
    column = 0
    for segment in Text.from_ansi(line.text).render(Console(width=COLUMNS * 4, color_system="standard")):
        text = segment.text.rstrip("\n")
        if text:
            place = f'x="{_MARGIN + column * _WIDTH:.1f}" textLength="{len(text) * _WIDTH:.1f}"'
            parts.append(f"<tspan {place}{_look(segment.style)}>{escape(text, quote=False)}</tspan>")
            column += len(text)
    animation = f' style="animation: l{number} {length_s:.1f}s step-end infinite"' if line.at_s > 0 else ""
    y = _MARGIN + (number + 0.75) * _HEIGHT
    return f'<text class="line" y="{y:.1f}" xml:space="preserve"{animation}>{"".join(parts)}</text>'


def _look(style: object) -> str:
    colour, bold = getattr(style, "color", None), getattr(style, "bold", False)
    number = colour.number if colour is not None else None
    fill = f' fill="{_COLOURS[number % 8]}"' if number is not None and number < 16 else ""
    return fill + (' font-weight="bold"' if bold else "")


if __name__ == "__main__":
    main()
