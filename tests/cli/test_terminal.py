"""What others wrote does nothing to the terminal of who looks at it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from gosched.cli import output
from gosched.cli.output import coloured, emit, escaped, say, table, titled
from tests.client.fake_cluster import FakeMaster
from tests.master.harness import agent, spec

CLI = Path(output.__file__).parent
EVIL = "a\x1b]0;owned\x07\x1b[2J\x9b31m\rb\nState      SUCCEEDED\u202e\u200bc"
UNTOUCHED = {"exec_command.py", "output.py"}  # a task's own bytes; the one place


def harmless(text: str) -> bool:
    return all(c.isprintable() or c == "\n" for c in text)


def test_everything_that_is_printed_goes_through_one_place() -> None:
    for module in CLI.glob("*.py"):
        text = module.read_text()
        if module.name not in UNTOUCHED:
            assert not re.search(r"\bprint\(|sys\.std(out|err)\.write", text), module.name
            echoes = re.findall(r"click\.echo\(.*", text)
            assert echoes == (["click.echo(error.format_message(), err=True)"] if module.name == "main.py" else [])


def test_what_users_agents_and_tasks_wrote_is_shown_without_control_characters(story):
    async def told(master, ctl):
        async with agent(master, "n1") as node:
            job = (await master.submit(spec("evil", cpus=100))).job_id
            await node.beat(master)
            state = master.state
            state.jobs[job] = replace(state.jobs[job], detail=EVIL, reason=EVIL)
            for task in state.tasks_of(state.jobs[job]):
                state.tasks[task.id] = replace(task, detail=EVIL, reason=EVIL)
            labels = (("gosched.io/runtime.x", EVIL), ("zone", EVIL))
            state.nodes["n1"] = replace(state.nodes["n1"], name=EVIL, labels=labels, reason=EVIL, isolation=EVIL)
            for member, record in list(state.masters.items()):
                state.masters[member] = replace(record, http_address=EVIL)
            for command in (
                ["job", "show", job],
                ["job", "list"],
                ["explain", job],
                ["node", "show", "n1"],
                ["node", "list"],
                ["top", "nodes"],
                ["top", "jobs"],
                ["status"],
            ):
                for form in ("table", "wide", "json", "yaml", "name"):
                    done = await ctl(*command, "-o", form)
                    assert done.code == 0, (command, done.err)
                    assert harmless(done.out + done.err), (command, form)
                    assert "\nState      SUCCEEDED" not in done.out
                    if form == "json" and command == ["job", "show", job]:
                        assert json.loads(done.out)["detail"] == EVIL

    story(told)


@pytest.mark.parametrize("reason", [EVIL, "two\nlines", "x" * 1025])
def test_a_reason_that_is_not_one_plain_line_is_refused(story, reason):
    async def told(master, ctl):
        job = (await master.submit(spec("a", cpus=100))).job_id
        done = await ctl("job", "cancel", job, "--reason", reason)
        assert (done.code, harmless(done.err)) == (1, True)
        assert "reason must be one line of at most 1024 characters" in done.err
        assert not master.state.jobs[job].state.is_final

    story(told)


def test_an_error_that_quotes_its_input_sends_no_control_characters(ctl, master: FakeMaster):
    done = ctl("job", "show", EVIL)
    assert done.code != 0
    assert harmless(done.err)
    assert done.err.count("\n") == 1


def test_own_colours_stay_and_others_do_not(capsys, monkeypatch):
    monkeypatch.setattr(output, "has_colour", lambda stream: True)
    monkeypatch.setattr(output.click.utils, "should_strip_ansi", lambda *_: False)
    emit(titled([("State", coloured("FAILED") + " (\x1b[31mred\x1b[0m)")]))
    say("\x1b[31mred")
    shown = capsys.readouterr()
    assert shown.out == "State      \x1b[31mFAILED\x1b[0m (\\x1b[31mred\\x1b[0m)\n"
    assert shown.err == "\\x1b[31mred\n"


def test_escaped_text_shows_the_control_characters():
    assert escaped("a\tb\x1bc\nd\x85é🙂") == "a\\tb\\x1bc\\nd\\x85é🙂"
    assert table([{"id": "a\x1b", "b": "c\x9b"}], [("B", lambda row: row["b"])]) == "B\nc\\x9b"


@pytest.mark.parametrize("form", ["json", "console"])
def test_log_lines_of_the_daemons_have_no_control_characters(form):
    program = (
        "import sys, structlog\n"
        "from gosched.logs import process\n"
        "process.begin(form=sys.argv[1], level='info')\n"
        "structlog.get_logger().info('node', node=sys.argv[2], reason='fine')\n"
        "print(sys.argv[2].replace(chr(10), ' '), file=sys.stderr)\n"
    )
    words = [sys.executable, "-c", program, form, EVIL]
    done = subprocess.run(words, capture_output=True, encoding="utf-8", timeout=60, check=True)
    assert harmless(done.stderr)
    assert done.stderr.count("\n") == 2
    assert "fine" in done.stderr
    assert done.stderr.count("owned") == 2
