"""Runs the console blocks of a page on a real cluster, and writes what they print: `python -m tools.docs.record`.

A page is recorded in place: each line of a ```console block that begins with `$ ` is run by one shell, in order, and
what stood below it is replaced by what it prints. Blocks of YAML with a file's name behind the language are written to
that file before. The shell has GOSCHED_ENDPOINTS of a new local cluster. A command that must fail says so by `;` and
what follows: if one fails otherwise, all that failed are named at the end, and the page stays as it is.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import click

from gosched.cli.local_cluster import LocalCluster

ROOT = Path(__file__).parents[2]
PAGES = (ROOT / "docs/getting-started/tour.md",)
LIMIT_S = 180.0  # for one command
UNREACHABLE = 5  # no master answered: on a busy machine the command is tried again
TRIES = 4
READY_S = 300.0  # for the cluster, on a machine that does other things as well
_MARK = "--- the command ended with "
_YAML = re.compile(r"^```yaml (\S+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_COLOUR = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Failed(Exception):
    """A command of the page did not work."""

    def __init__(self, command: str, output: str, code: int) -> None:
        super().__init__(f"$ {command}\n{output}(exit code {code})")
        self.output = output
        self.code = code


class ShellEnded(Exception):
    """The shell of a page is gone: a command ended it, or took too long."""


class Shell:
    """One bash, which keeps its directory and variables from command to command."""

    def __init__(self, folder: Path, env: dict[str, str]) -> None:
        self._bash = subprocess.Popen(
            ["bash", "--norc"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            cwd=folder,
            env=env,
            text=True,
            start_new_session=True,
        )

    def run(self, command: str) -> str:
        """Return what a command prints. Raise Failed if it fails, and ShellEnded if there is no shell any more."""
        assert self._bash.stdin is not None
        self._bash.stdin.write(f'{{ {command}\n}} </dev/null\necho "{_MARK}$?"\n')
        self._bash.stdin.flush()
        said: list[str] = []
        limit = threading.Timer(LIMIT_S, os.killpg, (self._bash.pid, signal.SIGKILL))
        limit.start()
        try:
            return self._answer(command, said)
        finally:
            limit.cancel()

    def _answer(self, command: str, said: list[str]) -> str:
        assert self._bash.stdout is not None
        for line in self._bash.stdout:
            before, mark, code = line.partition(_MARK)
            if not mark:
                said.append(line)
                continue
            said.append(f"{before}\n" if before else "")
            if int(code):
                raise Failed(command, "".join(said), int(code))
            return _COLOUR.sub("", "".join(said))
        raise ShellEnded(f"the shell ended: $ {command} (or it takes longer than {LIMIT_S:.0f} s)")

    def close(self) -> None:
        """End the shell, and what it runs."""
        assert self._bash.stdin is not None
        assert self._bash.stdout is not None
        self._bash.stdin.close()
        try:
            self._bash.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self._bash.pid, signal.SIGKILL)
            self._bash.wait()
        self._bash.stdout.close()


def recorded(page: str, run: Callable[[str], str]) -> str:
    """Return the page with the output of its commands, each run by `run`."""

    def block(found: re.Match[str]) -> str:
        lines = [line for line in found[1].splitlines() if line.startswith(("$ ", "> "))]
        commands: list[str] = []
        for line in lines:
            if line.startswith("$ "):
                commands.append(line.removeprefix("$ "))
            else:
                commands[-1] += "\n" + line.removeprefix("> ")
        parts = []
        for command in commands:
            first, *more = command.split("\n")
            output = run(command).rstrip("\n")
            parts.append("\n".join([f"$ {first}", *(f"> {line}" for line in more), *([output] if output else [])]))
        return "```console\n" + "\n".join(parts) + "\n```"

    return _CONSOLE.sub(block, page)


def record(path: Path, *, masters: int = 3, agents: int = 2) -> tuple[str, list[str]]:
    """Run a page on a cluster of its own; return it with what the commands print now, and which of them failed."""
    page = path.read_text()
    with tempfile.TemporaryDirectory(prefix="tour-") as scratch:
        folder = Path(scratch) / "tour"
        folder.mkdir()
        for name, text in _YAML.findall(page):
            (folder / name).write_text(text)
        cluster = LocalCluster(Path(scratch) / "data", masters=masters, agents=agents)
        try:
            cluster.start(timeout_s=READY_S)
            shell = Shell(folder, _environment(cluster.endpoints, Path(scratch)))
            try:
                return _all_of(page, shell)
            finally:
                shell.close()
        finally:
            cluster.stop()


def _all_of(page: str, shell: Shell) -> tuple[str, list[str]]:
    failures: list[str] = []

    def run(command: str) -> str:
        for left in reversed(range(TRIES)):
            try:
                return shell.run(command)
            except Failed as error:
                if error.code != UNREACHABLE or not left:
                    failures.append(str(error))
                    return error.output
        raise AssertionError("the last try returns")

    return recorded(page, run), failures


def _environment(endpoints: str, scratch: Path) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith("GOSCHED_")}
    path = f"{Path(sys.executable).parent}:{own.get('PATH', '')}"
    home = scratch / "home"
    home.mkdir(exist_ok=True)
    more = {"PATH": path, "GOSCHED_ENDPOINTS": endpoints, "HOME": str(home), "USER": "alice", "LOGNAME": "alice"}
    return {**own, **more, "COLUMNS": "110", "NO_COLOR": "1", "LC_ALL": "C.UTF-8", "PS1": "", "TERM": "dumb"}


@click.command()
@click.option("--to", type=click.Path(path_type=Path), help="Write there instead; the page stays as it is.")
def main(to: Path | None) -> None:
    """Record the pages anew."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the cluster ends, too
    for path in PAGES:
        page, failures = record(path)
        if to or not failures:
            (to or path).write_text(page)
        if failures:
            raise click.ClickException("\n".join([path.name, *failures]))


if __name__ == "__main__":
    main()
