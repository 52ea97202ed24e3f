"""Twenty leaders killed under a stream of submissions: every acknowledged job ends as it should, once."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.storm import run_storm


@pytest.mark.timeout(1800)  # it takes two minutes where nothing else runs
def test_no_acknowledged_job_is_lost_or_run_twice_when_20_leaders_are_killed(tmp_path: Path) -> None:
    storm = run_storm(tmp_path, kills=20)
    assert storm.problems == []
    assert len(storm.acknowledged) > 200
    assert len(storm.gaps_s) == 20
