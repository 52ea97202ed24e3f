"""The chart's values, their schema and README say the same, and what it configures is there."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import pytest
import yaml

from gosched import __version__
from gosched.config.agent_settings import AgentSettings
from gosched.config.settings import MasterSettings
from tools.helm_values import CHART, main, values_of

VALUES = yaml.safe_load((CHART / "values.yaml").read_text())
SCHEMA = json.loads((CHART / "values.schema.json").read_text())
SHAPED_LIKE_SETTINGS = {"master.config": MasterSettings, "agent.config": AgentSettings}
OF_THE_CHART = {"insecure", "tls", "data_dir", "archive", "secrets", "join_token_file"}
OF_LOCAL_CLUSTERS = {"shared_token_file"}


def leaves(node: Any, path: str = "") -> Iterable[tuple[str, Any]]:
    """The schema's keys that are not mappings with named keys, with what is said of them."""
    if "properties" not in node or path in SHAPED_LIKE_SETTINGS:
        yield path, node
        return
    assert node["additionalProperties"] is False, f"{path} takes whatever it is given"
    for key, child in node["properties"].items():
        if (path, key) != ("", "global"):
            yield from leaves(child, f"{path}.{key}".strip("."))


def value_at(path: str) -> Any:
    found = VALUES
    for key in path.split("."):
        found = found[key]
    return found


def test_the_readme_has_every_value_as_it_is() -> None:
    assert main(["--check"]) == 0
    documented = {value.key for value in values_of((CHART / "values.yaml").read_text())}
    for path, _ in leaves(SCHEMA):
        assert any(path == key or path.startswith(f"{key}.") for key in documented), f"{path} is in no row"


def test_a_value_without_a_comment_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"values\.yaml:3: b has no comment"):
        values_of("# What a is.\na: 1\nb: 2\n")


def test_the_schema_knows_every_value_and_no_other() -> None:
    def keys(node: Any, known: set[str], path: str) -> Iterable[str]:
        if path in known or not isinstance(node, dict):
            yield path
            return
        for key, child in node.items():
            yield from keys(child, known, f"{path}.{key}".strip("."))

    known = {
        path.partition(".requests")[0].partition(".limits")[0].partition(".claims")[0] for path, _ in leaves(SCHEMA)
    }
    known = {path for path in known if not path.startswith("tls.certManager.issuerRef.")} | {
        "tls.certManager.issuerRef"
    }
    assert set(keys(VALUES, known, "")) == known


@pytest.mark.parametrize("path", SHAPED_LIKE_SETTINGS)
def test_a_config_takes_the_keys_of_its_program_and_no_others(path: str) -> None:
    part = path.partition(".")[0]
    taken = set(SCHEMA["properties"][part]["properties"]["config"]["properties"])
    fields = SHAPED_LIKE_SETTINGS[path].model_fields
    known = {field.alias or name for name, field in fields.items()}
    assert known - taken - OF_THE_CHART - OF_LOCAL_CLUSTERS <= {"masters", "health_addr"}
    # Those of `server` that may stand at the top.
    assert taken - known <= {"algorithm", "schedule_period"}


def test_the_chart_has_the_version_of_the_programs() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
