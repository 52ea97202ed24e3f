"""SECURITY.md promises nothing without a test that is there."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "SECURITY.md").read_text()


def test_each_promise_names_tests_and_each_test_is_there() -> None:
    rows = [row for row in re.findall(r"^\| (.*) \| (.*) \|$", TEXT, re.M) if row != ("promise", "shown by")]
    assert len(rows) > 20
    for promise, shown in rows:
        named = re.findall(r"`(tests/[\w/]+\.py)(?:::(\w+))?`", shown)
        assert named, promise
        for file, test in named:
            assert (ROOT / file).is_file(), file
            assert not test or re.search(rf"def {test}\(", (ROOT / file).read_text()), f"{file}::{test}"


def test_each_link_of_the_policy_leads_somewhere() -> None:
    links = re.findall(r"\]\((?!https:)([^)#]+)", TEXT)
    assert links
    assert [link for link in links if not (ROOT / link).exists()] == []
