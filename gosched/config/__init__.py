"""What people write: settings and job files, parsed and validated. The only reader of config files and environment.

The names below are imported on first use: the command line reads its context here at every start, without pydantic.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gosched.lazy import lazy

if TYPE_CHECKING:
    from gosched.config.address import Listen, resolve_listen
    from gosched.config.agent_settings import AgentSettings
    from gosched.config.errors import ConfigError
    from gosched.config.jobs.jobfile import job_from_flags, parse_job_file
    from gosched.config.load import load_agent_settings, load_master_settings, parse_queue_file
    from gosched.config.settings import MasterSettings

__getattr__ = lazy(
    __name__,
    {
        "gosched.config.address": "Listen resolve_listen",
        "gosched.config.agent_settings": "AgentSettings",
        "gosched.config.errors": "ConfigError",
        "gosched.config.jobs.jobfile": "job_from_flags parse_job_file",
        "gosched.config.load": "load_agent_settings load_master_settings parse_queue_file",
        "gosched.config.settings": "MasterSettings",
    },
)

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
