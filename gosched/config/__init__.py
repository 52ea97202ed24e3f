"""What people write: settings and job files, parsed and validated. The only reader of config files and environment."""

from gosched.config.address import Listen, resolve_listen
from gosched.config.errors import ConfigError
from gosched.config.jobfile import job_from_flags, parse_job_file
from gosched.config.load import load_agent_settings, load_master_settings
from gosched.config.settings import AgentSettings, MasterSettings

__all__ = [
    "AgentSettings",
    "ConfigError",
    "Listen",
    "MasterSettings",
    "job_from_flags",
    "load_agent_settings",
    "load_master_settings",
    "parse_job_file",
    "resolve_listen",
]
