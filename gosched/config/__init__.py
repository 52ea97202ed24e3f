"""What people write: settings and job files, parsed and validated. The only reader of config files and environment.

The names below are imported on first use: the command line reads its context here at every start, without pydantic.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gosched.config.address import Listen, resolve_listen
    from gosched.config.agent_settings import AgentSettings
    from gosched.config.errors import ConfigError
    from gosched.config.jobs.jobfile import job_from_flags, parse_job_file
    from gosched.config.load import load_agent_settings, load_master_settings, parse_queue_file
    from gosched.config.settings import MasterSettings

_MODULES = {
    "AgentSettings": "agent_settings",
    "ConfigError": "errors",
    "Listen": "address",
    "MasterSettings": "settings",
    "job_from_flags": "jobs.jobfile",
    "load_agent_settings": "load",
    "load_master_settings": "load",
    "parse_job_file": "jobs.jobfile",
    "parse_queue_file": "load",
    "resolve_listen": "address",
}

__all__ = [
    "AgentSettings",
    "ConfigError",
    "Listen",
    "MasterSettings",
    "job_from_flags",
    "load_agent_settings",
    "load_master_settings",
    "parse_job_file",
    "parse_queue_file",
    "resolve_listen",
]


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return getattr(import_module(f"gosched.config.{_MODULES[name]}"), name)
    raise AttributeError(f"module 'gosched.config' has no attribute {name!r}")
