"""Every job file and config on a page is one that gosched accepts.

A fenced block of `yaml` is a file of gosched: one that is neither a job file, a config, nodes nor a trace is an error.
An indented block counts where it is YAML with a job's or a config's keys.
"""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
import yaml

from gosched.config import ConfigError, load_agent_settings, load_master_settings, parse_job_file
from gosched.config.access_file import parse_bindings
from gosched.config.agent_settings import AgentSettings
from gosched.config.settings import MasterSettings
from gosched.core.features import NEWEST_LEVEL
from gosched.core.rules.jobs import check_job
from gosched.sim.cluster.traces import read_nodes
from gosched.sim.cluster.traces.native import read as read_trace
from tests.docs.pages import Block, blocks, pages

#: The name of a file that shows how a mistake is refused.
MISTAKE = "mistake.yaml"
_RUNNABLE = {"run", "tasks", "spark"}


def kind(block: Block) -> str:
    """Return what a block is: job, bindings, master, agent, nodes, trace; empty: none of them."""
    try:
        documents = [document for document in yaml.safe_load_all(block.text) if document is not None]
    except yaml.YAMLError:
        return ""
    if not documents or not all(isinstance(document, (dict, list)) for document in documents):
        return ""
    first = documents[0]
    if isinstance(first, list):
        entries = [entry for entry in first if isinstance(entry, dict)]
        if len(entries) != len(first) or not entries:
            return ""
        return "trace" if "job" in entries[0] else "nodes" if "cpu" in entries[0] else ""
    keys = [set(document) for document in documents]
    if all("name" in of and of & _RUNNABLE for of in keys):
        return "job"
    if keys[0] == {"bindings"}:
        return "bindings"
    if keys[0] <= _keys_of(MasterSettings):
        return "master"
    return "agent" if keys[0] <= _keys_of(AgentSettings) else ""


def _keys_of(model: type[MasterSettings] | type[AgentSettings]) -> set[str]:
    return {field.alias or name for name, field in model.model_fields.items()}


def check(block: Block, what: str, folder: Path) -> None:
    """Raise what gosched says of a file with this text."""
    path = folder / "example.yaml"
    path.write_text(block.text)
    if what == "job":
        for spec in parse_job_file(block.text, block.place):
            assert check_job(spec, NEWEST_LEVEL) is None
    elif what == "master":
        load_master_settings(str(path), {})
    elif what == "agent":
        load_agent_settings(str(path), {})
    elif what == "bindings":
        parse_bindings(block.text, block.place)
    elif what == "nodes":
        assert read_nodes(block.text, block.place)
    else:
        assert read_trace(block.text, block.place).jobs


ALL = [block for page in pages() for block in blocks(page)]
EXAMPLES = [(block, what) for block in ALL if block.language in ("", "yaml") and (what := kind(block))]


@pytest.mark.parametrize(("block", "what"), EXAMPLES, ids=lambda part: part.place if isinstance(part, Block) else part)
def test_each_example_is_accepted(block: Block, what: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigError) if MISTAKE in block.marks else nullcontext():
        check(block, what, tmp_path)


def test_each_fenced_yaml_is_a_file_of_gosched() -> None:
    unknown = [block.place for block in ALL if block.language == "yaml" and not kind(block)]
    assert unknown == []


def test_the_examples_are_found() -> None:
    found = [what for _, what in EXAMPLES]
    assert {"job", "master", "agent"} <= set(found)
    assert len(found) >= 20


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("name: a\nrun: a\nqueu: b\n", "job"),
        ("name: a\nrun: a\nresources: {memory: 5}\n", "job"),
        ("queues: [{name: a, capacity_pct: 101}]\n", "master"),
        ("- {name: n, cpu: -1}\n", "nodes"),
    ],
)
def test_a_wrong_example_is_found(text: str, what: str, tmp_path: Path) -> None:
    block = Block(page=pages()[0], line=1, language="yaml", marks=(), text=text)
    assert kind(block) == what
    with pytest.raises(Exception, match=r"queu|unit|101|cpu"):
        check(block, what, tmp_path)
