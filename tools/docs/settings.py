"""The references of the settings of masters and agents: every key, from their models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gosched.config.agent_settings import AgentSettings
from gosched.config.load import AGENT_KEYS, MASTER_KEYS
from gosched.config.settings import MasterSettings, Settings
from gosched.config.tree import Path, dotted
from tools.docs.markdown import code, page, table
from tools.docs.models import Key, keys
from tools.docs.texts import entries, filled

_HEAD = ("key", "what may be written", "default", "meaning", "flag")
_INTRO = """\
The file is YAML; `{program} --config FILE` reads it. Every key may be left out. Flags override the environment, the
environment overrides the file: the variable of the flag `--grpc-addr` is `GOSCHED_GRPC_ADDR`. Unknown keys are errors
that name the nearest known key. `goschedctl config validate FILE` checks a file, and
[config/{file}](../../config/{file}) is an example. {reload}"""
_RELOAD_MASTER = (
    "At SIGHUP a master reads the file again: the level of the log is taken over, and queues and quotas that changed."
)
_RELOAD_AGENT = "At SIGHUP an agent reads the file again and takes over the level of the log."


def master_settings() -> str:
    """Return the page of masters. Raise Incomplete if a key has no text."""
    intro = _INTRO.format(program="gosched-master", file="gosched.yaml", reload=_RELOAD_MASTER)
    return page("Settings of masters", intro, *_sections(MasterSettings, "settings_master", MASTER_KEYS))


def agent_settings() -> str:
    """Return the page of agents. Raise Incomplete if a key has no text."""
    intro = _INTRO.format(program="gosched-agent", file="agent.yaml", reload=_RELOAD_AGENT)
    return page("Settings of agents", intro, *_sections(AgentSettings, "settings_agent", AGENT_KEYS))


def _sections(model: type[Settings], name: str, flags: Mapping[str, Path]) -> Iterator[str]:
    common = {key.path for one in (MasterSettings, AgentSettings) for key in keys(one)}
    common &= {key.path for key in keys(MasterSettings)} & {key.path for key in keys(AgentSettings)}
    shown = list(keys(model))
    own = [key.path for key in shown if key.path not in common]
    texts = {**entries("settings_both", sorted(common)), **entries(name, own)}
    by_key = {dotted(path): flag for flag, path in flags.items()}
    single = [key for key in shown if not _has_inner(key, shown)]
    yield "## Keys without a section"
    yield table(_HEAD, [_row(key, texts, by_key) for key in single if "." not in key.path])
    for top in [key for key in shown if _has_inner(key, shown) and "." not in key.path]:
        inner = [key for key in shown if key.path.startswith((f"{top.path}.", f"{top.path}[", f"{top.path}."))]
        yield f"## `{top.path}`"
        yield filled(texts[top.path])
        yield table(_HEAD, [_row(key, texts, by_key) for key in inner])


def _has_inner(key: Key, shown: list[Key]) -> bool:
    return any(other.path.startswith((f"{key.path}.", f"{key.path}[")) for other in shown)


def _row(key: Key, texts: Mapping[str, str], flags: Mapping[str, str]) -> tuple[str, ...]:
    kind = f"{key.type}; {key.bounds}" if key.bounds else key.type
    flag = flags.get(key.path, "")
    return (
        code(key.path),
        kind,
        key.default,
        filled(texts[key.path]),
        code(f"--{flag.replace('_', '-')}" if flag else ""),
    )
