"""The generated references: each thing of the code has a text, and each example of a job file is one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from gosched.config.jobs.jobfile import parse_job_file
from gosched.core.reasons import Reason, RefusalReason, WaitReason
from tools.docs import texts
from tools.docs.__main__ import PAGES, REFERENCE
from tools.docs.job_file import GROUP
from tools.docs.links import broken
from tools.docs.models import duration_text
from tools.docs.texts import Incomplete, entries

JOB_FILE: dict[str, dict[str, Any]] = yaml.safe_load((texts.FOLDER / "job_file.yaml").read_text())


@pytest.mark.parametrize("name", PAGES)
def test_all_that_a_page_lists_has_a_text(name: str) -> None:
    assert len(PAGES[name]().splitlines()) > 20


def test_every_code_of_a_wait_an_end_and_a_refusal_says_what_to_do() -> None:
    page = PAGES["codes"]()
    for code in [*WaitReason, *Reason, *RefusalReason]:
        rows = re.findall(rf"^\| `{code}` \| (.+) \| (.+) \|$", page, re.MULTILINE)
        assert rows, f"{code} has no entry: add it to tools/docs/texts"


def test_a_code_without_a_text_and_a_text_without_a_code_are_seen() -> None:
    known = [str(one) for one in RefusalReason]
    entries("refusals", known)
    with pytest.raises(Incomplete, match=r"refusals\.yaml: NEW: has no text"):
        entries("refusals", [*known, "NEW"])
    with pytest.raises(Incomplete, match=f"{known[0]}: is not in the code"):
        entries("refusals", known[1:])


def job_with(path: str, entry: dict[str, Any]) -> str:
    """Return a job file that has the example at its key, and what the key needs beside it."""
    job: dict[str, Any] = {"name": "x"}
    if not path.startswith(("spark", "tasks:")) and path != "tasks" and "tasks" not in str(entry.get("with", "")):
        job["run"] = "true"
    job |= yaml.safe_load(entry.get("with", "{}"))
    if path.startswith("spark."):
        job["spark"] = {"app": "/apps/etl.py"}
    value = entry["example"]
    value = yaml.safe_load(value) if isinstance(value, str) else value
    *outer, last = path.removeprefix(GROUP).split(".")
    place = job
    for part in outer:
        place = place.setdefault(part, {})
    place[last] = value
    return yaml.safe_dump(job, sort_keys=False)


@pytest.mark.parametrize("path", [path for path in JOB_FILE if "[]" not in path])
def test_each_example_of_a_key_is_a_part_of_a_job_file(path: str) -> None:
    entry = JOB_FILE[path]
    (job,) = parse_job_file(job_with(path, entry), "example")
    assert job.name


def test_durations_are_shown_as_they_are_written() -> None:
    assert [duration_text(ms) for ms in (0, 1, 1500, 60_000, 90_000, 86_400_000)] == [
        *("0", "1ms", "1500ms", "1m", "90s", "1d"),
    ]


def test_committed_pages_are_there() -> None:
    assert {path.stem for path in REFERENCE.glob("*.md")} >= {*PAGES, "index"}


def test_links_to_nowhere_and_files_from_elsewhere_are_seen(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(
        '<h1 id="here"></h1><a href="b.html">b</a><a href="#here">h</a><a href="#gone">g</a><a href="https://x.org">x</a>'
        '<script src="https://x.org/x.js"></script><img src="c.png">'
    )
    assert list(broken(tmp_path)) == [
        "a.html: b.html: no such file",
        "a.html: #gone: no such section",
        "a.html: https://x.org/x.js: loaded from another site",
        "a.html: c.png: no such file",
    ]
