"""What the user guide shows can be used as it stands."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from gosched.config import load_master_settings, parse_job_file
from gosched.core.features import NEWEST_LEVEL
from gosched.core.rules.jobs import check_job

GUIDE = (Path(__file__).parents[2] / "docs" / "guides" / "user-guide.md").read_text()
FOUND = re.findall(r"(?m)((?:^    .*\n)+(?:\n?(?:^    .*\n)+)*)", GUIDE)
BLOCKS = [re.sub(r"(?m)^    ", "", found) for found in FOUND]
JOBS = [block for block in BLOCKS if block.startswith("name:")]
SETTINGS = [block for block in BLOCKS if re.match(r"(queues|scheduling):", block)]


@pytest.mark.parametrize("text", JOBS, ids=lambda text: text.split()[1])
def test_each_job_of_the_guide_is_accepted(text):
    (spec,) = parse_job_file(text, "guide")
    assert check_job(spec, NEWEST_LEVEL) is None


@pytest.mark.parametrize("text", SETTINGS, ids=lambda text: text.split(":")[0])
def test_each_setting_of_the_guide_loads(tmp_path, text):
    path = tmp_path / "c.yaml"
    path.write_text(text)
    load_master_settings(str(path), {})


def test_the_guide_has_examples():
    assert len(JOBS) >= 6
    assert len(SETTINGS) >= 2
