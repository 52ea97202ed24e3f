"""The key `tracing` of both daemons."""

from __future__ import annotations

import pytest

from gosched.config import ConfigError, load_agent_settings, load_master_settings

LOADERS = pytest.mark.parametrize("load", [load_master_settings, load_agent_settings])


@LOADERS
def test_nothing_is_traced_unless_a_collector_is_named(load):
    assert load(None, {}).tracing.endpoint == ""


@LOADERS
@pytest.mark.parametrize(
    "endpoint", ["http://c:4318", "http://c:4318/", "http://c:4318/v1/traces", "http://c:4318/v1/traces/"]
)
def test_the_path_of_traces_is_added_unless_it_is_there(load, tmp_path, endpoint):
    path = tmp_path / "config.yaml"
    path.write_text(f"tracing: {{endpoint: '{endpoint}', sample: 0.1, attributes: {{team: a}}}}")
    tracing = load(str(path), {}).tracing
    assert (tracing.url, tracing.sample, tracing.attributes) == ("http://c:4318/v1/traces", 0.1, (("team", "a"),))


@LOADERS
@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("endpoint: collector:4317", "tracing.endpoint: expected the URL of a collector such as http://collector:4318"),
        ("endpoint: 'http://'", "tracing.endpoint: expected the URL of a collector such as http://collector:4318"),
        ("endpoint: 'http://c:x'", "tracing.endpoint: expected the URL of a collector such as http://collector:4318"),
        ("sample: 2", "tracing.sample: expected a share from 0 to 1, such as 0.1, got 2"),
        ("sample: -0.1", "tracing.sample: expected a share from 0 to 1"),
        ("sample: .nan", "tracing.sample: expected a share from 0 to 1, such as 0.1, got '.nan'"),
        ("headers: [a]", "tracing.headers: expected keys and values"),
        ("endpoit: x", 'tracing.endpoit: unknown key (did you mean "endpoint"?)'),
    ],
)
def test_mistakes_are_named(load, tmp_path, keys, words):
    path = tmp_path / "config.yaml"
    path.write_text(f"tracing: {{{keys}}}")
    with pytest.raises(ConfigError) as caught:
        load(str(path), {})
    assert words in str(caught.value)
