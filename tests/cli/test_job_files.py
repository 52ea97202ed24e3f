from __future__ import annotations

import json
from pathlib import Path

import jsonschema_rs
import pytest
import yaml

EXAMPLES = sorted(Path("examples").glob("*.yaml"))


def test_validate_names_every_error_with_file_line_and_key(ctl, master, tmp_path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(
        "name: a\nrn: x\ncount: zero\nresources: {memory: 5}\n"
        "---\nname: a\nrun: y\ntimeout: 1h\nestimate: 2h\n"
        "---\nname: c\ntasks: {w: {run: x, count: 0}, v: {run: y, umask: '9'}}\n"
        "---\nname: d\ntasks: {w: {run: x, count: 0}, v: {run: y, count: -1}}\n"
    )
    result = ctl("job", "validate", str(path))
    assert (result.code, result.out, master.calls) == (2, "", [])
    assert result.err.splitlines() == [
        f'{path}:1: needs "run"',
        f'{path}:2: rn: unknown key (did you mean "run"?)',
        f"{path}:3: count: expected a whole number, got 'zero'",
        f"{path}:4: resources.memory: needs a unit such as 5Mi or 5Gi",
        f"{path}:6: name: job 2 of the file has the name of job 1, a at {path}:1: rename one",
        f"{path}:9: estimate: is beyond the timeout of 1h: it would never end",
        f"{path}:12: tasks.v.umask: expected three octal digits such as 022, got '9'",
        f"{path}:15: tasks.w.count: is 0; it must be at least 1",
        f"{path}:15: tasks.v.count: is -1; it must be at least 1",
    ]


def test_validate_looks_at_every_file_and_at_standard_input(ctl, tmp_path, monkeypatch) -> None:
    good = tmp_path / "good.yaml"
    good.write_text("name: a\nrun: x\n---\nname: b\nrun: x\nafter: {a: success}\n")
    result = ctl("job", "validate", str(tmp_path / "no.yaml"), str(good))
    assert result.code == 2
    assert "no.yaml: cannot read the job file: No such file" in result.err
    assert result.err.endswith(f"{good}: 2 valid jobs: a, b\n")
    assert ctl("job", "validate", str(good)).code == 0


def test_a_cycle_is_found_once_the_jobs_are_right(ctl, tmp_path) -> None:
    path = tmp_path / "cycle.yaml"
    path.write_text("name: a\nrun: x\nafter: {b: any}\n---\nname: b\nrun: x\nafter: {a: any}\n")
    result = ctl("job", "validate", str(path))
    assert (result.code, result.err.count("\n")) == (2, 1)
    assert "a cycle: a waits for b, b waits for a" in result.err


@pytest.mark.parametrize("path", EXAMPLES, ids=[path.name for path in EXAMPLES])
def test_an_editor_with_the_schema_takes_the_examples(ctl, path) -> None:
    schema = json.loads(ctl("job", "schema").out)
    jsonschema_rs.meta.validate(schema)
    valid = jsonschema_rs.validator_for(schema)
    for job in yaml.safe_load_all(path.read_text()):
        assert [str(error) for error in valid.iter_errors(job)] == []
    assert not valid.is_valid({"name": "a", "rn": "x"})
