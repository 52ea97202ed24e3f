"""`secrets` of job files, and of masters."""

from __future__ import annotations

import pytest

from gosched.client import Job
from gosched.client.spec import spec_of
from gosched.config import ConfigError, load_master_settings
from gosched.config.jobs.jobfile import parse_job_file
from gosched.config.jobs.writer import job_text
from gosched.core.spec.job_spec import JobSpec
from gosched.core.spec.secret_use import SecretUse

ALL = "[{name: key}, {name: db, file: deep/password}, {name: hf, env: HF_TOKEN}]"
USES = (
    SecretUse(name="key", file="key"),
    SecretUse(name="db", file="deep/password"),
    SecretUse(name="hf", env="HF_TOKEN"),
)


def job(secrets: str, more: str = "run: 'true'") -> JobSpec:
    return parse_job_file(f"name: a\n{more}\nsecrets: {secrets}\n", "f")[0]


def test_a_job_names_secrets_as_files_and_variables_and_is_written_as_it_was_read() -> None:
    spec = job(ALL)
    assert spec.groups[0].secrets == USES
    assert parse_job_file(job_text(spec), "written") == [spec]
    assert spec_of(Job(name="a", run="true", secrets=[
        {"name": "key"}, {"name": "db", "file": "deep/password"}, {"name": "hf", "env": "HF_TOKEN"},
    ])) == spec  # fmt: skip


def test_each_group_has_its_own() -> None:
    text = "name: a\ntasks:\n  one: {run: 'true', secrets: [{name: key}]}\n  two: {run: 'true'}\n"
    one, two = parse_job_file(text, "f")[0].groups
    assert (one.secrets, two.secrets) == (USES[:1], ())


@pytest.mark.parametrize(
    ("secrets", "words"),
    [
        ("[{name: db, file: a, env: B}]", "f:3: secrets[0]: it is given as a file or as a variable (env)"),
        ("[{file: a}]", "f:3: secrets[0]: needs"),
        ("[{nam: a}]", 'unknown key (did you mean "name"?)'),
        ("[{name: db, file: /etc/passwd}]", "f:3: secrets[0].file: '/etc/passwd' is no relative path"),
        ("[{name: db, env: GOSCHED_X}]", "f:3: secrets[0].env"),
        ("[{name: db, value: hunter2}]", "f:3: secrets[0].value: unknown key"),
        ("db", "f:3: secrets"),
    ],
)
def test_a_mistake_is_one_line_with_its_place(secrets: str, words: str) -> None:
    with pytest.raises(ConfigError) as raised:
        job(secrets)
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_variable_of_a_container_is_refused_with_what_to_do() -> None:
    with pytest.raises(ConfigError) as raised:
        job("[{name: db, env: DB}]", "image: 'debian:12'\nrun: env")
    assert "take a file instead" in str(raised.value)


def _load(tmp_path, keys: str):
    path = tmp_path / "config.yaml"
    path.write_text(f"secrets: {{{keys}}}")
    return load_master_settings(str(path), {}).secrets


@pytest.mark.parametrize("keys", ["key_file: /etc/keys", "key_env: KEYS", "key_command: [kms, print]"])
def test_a_master_has_its_keys_from_one_place(tmp_path, keys):
    assert _load(tmp_path, keys) is not None
    assert load_master_settings(None, {}).secrets is None


@pytest.mark.parametrize("keys", ["", "key_file: /etc/keys, key_env: KEYS", "key_file: ''"])
def test_none_and_two_are_mistakes(tmp_path, keys):
    with pytest.raises(ConfigError, match='needs one of "key_file", "key_env" and "key_command"'):
        _load(tmp_path, keys)
