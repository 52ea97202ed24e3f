"""The JSON schema of a job file takes what the parser takes, and refuses what it refuses by form."""

from __future__ import annotations

import json
from collections import Counter
from typing import Any

import jsonschema_rs
import pytest
import yaml
from hypothesis import given, settings

from gosched.config import ConfigError, parse_job_file
from gosched.config.jobs import schema
from gosched.config.jobs.schema import job_schema
from gosched.config.jobs.writer import job_keys
from gosched.core.features import NEWEST_LEVEL
from gosched.core.rules.jobs import check_job
from gosched.core.spec.job_spec import JobSpec
from tests.config.specs import specs
from tests.config.test_writer import EXAMPLES

VALID = jsonschema_rs.validator_for(job_schema())


def refused(job: Any) -> str:
    error = next(VALID.iter_errors(job), None)
    return str(error) if error else ""


def test_every_job_that_is_written_is_valid() -> None:
    seen: Counter[str] = Counter()

    @settings(max_examples=100, deadline=None, derandomize=True, database=None)
    @given(specs())
    def valid(job: JobSpec) -> None:
        if check_job(job, NEWEST_LEVEL) is None:
            assert not refused(job_keys(job))
            seen["valid"] += 1

    valid()
    assert seen["valid"] > 5


@pytest.mark.parametrize("text", EXAMPLES)
def test_what_a_file_says_is_valid(text: str) -> None:
    assert not refused(yaml.safe_load(text.replace("1-9:2", "'1-9:2'")))


WRONG = [
    {"run": "x"},
    {"name": "a"},
    {"name": "a", "run": "x", "unknown": 1},
    {"name": "a", "run": []},
    {"name": "a", "run": "x", "resources": {"memory": "5"}},
    {"name": "a", "run": "x", "resources": {"memory": "5Xi"}},
    {"name": "a", "run": "x", "resources": {"gpu": {"kind": "h100"}}},
    {"name": "a", "run": "x", "timeout": "5 minutes"},
    {"name": "a", "run": "x", "timeout": 5},
    {"name": "a", "run": "x", "priority": "urgent"},
    {"name": "a", "run": "x", "priority": 1001},
    {"name": "a", "run": "x", "gang": {"min": "half"}},
    {"name": "a", "run": "x", "array": {"range": "9"}},
    {"name": "a", "run": "x", "after": {"b": "done"}},
    {"name": "a", "run": "x", "rlimits": {"files": 1}},
    {"name": "a", "run": "x", "volumes": ["data"]},
    {"name": "a", "run": "x", "placement": {"affinity": [{"label": "a", "op": "like"}]}},
    {"name": "a", "tasks": {"b": {"count": 1}}},
    {"name": "a", "spark": {"args": []}},
]


@pytest.mark.parametrize("job", WRONG, ids=json.dumps)
def test_what_the_parser_refuses_by_its_form_is_not_valid(job: Any) -> None:
    assert refused(job)
    with pytest.raises(ConfigError):
        parse_job_file(json.dumps(job), "f")


def test_a_value_whose_form_is_not_known_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {name: shape for name, shape in schema._WRITTEN.items() if name != "_range"}
    monkeypatch.setattr(schema, "_WRITTEN", known)
    with pytest.raises(KeyError, match="_range"):
        job_schema()


def test_defaults_and_titles_of_values_as_they_are_read_are_left_out() -> None:
    text = json.dumps(job_schema())
    assert '"default"' not in text
    assert "custom resources" not in text
    assert "$ref" not in text
