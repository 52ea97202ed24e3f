"""Settings from three layers: flags override the environment, the environment overrides the file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path as FilePath
from typing import Any, TypeVar

from gosched.config.agent_settings import AgentSettings
from gosched.config.errors import ConfigError
from gosched.config.files import read_file
from gosched.config.settings import MasterSettings, Settings
from gosched.config.tree import Document, Path, dotted, read_documents
from gosched.config.validation import validate
from gosched.core.records.queue import Queue
from gosched.core.records.tenant import Quota

# Each flag and, as GOSCHED_<NAME>, each environment variable: the path of its key.
MASTER_KEYS: Mapping[str, Path] = {
    "grpc_addr": ("server", "grpc_addr"),
    "http_addr": ("server", "http_addr"),
    "token_addr": ("server", "token_addr"),
    "health_addr": ("server", "health_addr"),
    "probe_addr": ("server", "probe_addr"),
    "advertise_host": ("server", "advertise_host"),
    "algorithm": ("server", "algorithm"),
    "schedule_period": ("server", "schedule_period"),
    "raft_enabled": ("raft", "enabled"),
    "node_id": ("raft", "node_id"),
    "bind_addr": ("raft", "bind_addr"),
    "bootstrap": ("raft", "bootstrap"),
    "peers": ("raft", "peers"),
    "data_dir": ("data_dir",),
    "insecure": ("insecure",),
    "tls_cert": ("tls", "cert"),
    "tls_key": ("tls", "key"),
    "tls_ca": ("tls", "ca"),
    "admins": ("access", "admins"),
    "log_format": ("logging", "format"),
    "log_level": ("logging", "level"),
    "tracing_endpoint": ("tracing", "endpoint"),
}
#: The token to join with, of an agent: in no setting, so that none prints it.
JOIN_VARIABLE = "GOSCHED_JOIN_TOKEN"
AGENT_KEYS: Mapping[str, Path] = {
    "master": ("masters",),
    "labels": ("labels",),
    "taints": ("taints",),
    "grpc_addr": ("grpc_addr",),
    "http_addr": ("http_addr",),
    "health_addr": ("health_addr",),
    "advertise_addr": ("advertise_addr",),
    "data_dir": ("data_dir",),
    "resources": ("resources",),
    "gpu_model": ("gpu_model",),
    "insecure": ("insecure",),
    "tls_cert": ("tls", "cert"),
    "tls_key": ("tls", "key"),
    "tls_ca": ("tls", "ca"),
    "log_format": ("logging", "format"),
    "log_level": ("logging", "level"),
    "tracing_endpoint": ("tracing", "endpoint"),
}

S = TypeVar("S", bound=Settings)


def load_master_settings(config_path: str | None, flags: Mapping[str, object]) -> MasterSettings:
    """Return the settings. `flags` by the names of MASTER_KEYS; None: a flag that was not given. Raise ConfigError."""
    settings = _load(MasterSettings, MASTER_KEYS, config_path, flags)
    return settings if settings.data_dir else _with(settings, data_dir=_default_data_dir("master"))


def load_agent_settings(config_path: str | None, flags: Mapping[str, object]) -> AgentSettings:
    """Return the settings. `flags` by the names of AGENT_KEYS; None: a flag that was not given. Raise ConfigError."""
    settings = _load(AgentSettings, AGENT_KEYS, config_path, flags)
    return settings if settings.data_dir else _with(settings, data_dir=_default_data_dir("agent"))


def parse_queue_file(text: bytes | str, source: str) -> tuple[tuple[Queue, ...], tuple[Quota, ...] | None]:
    """Return the queues of a master's config file, or of one that holds only `queues` and perhaps `quotas`.

    Parents before their children, with a `default` queue. None: the file has no `quotas`. Raises ConfigError.
    """
    none = ConfigError(f"{source}: no queues in it: write at least queues: [{{name: production}}]")
    document = _sharing_document(text, source, none)
    if not document.value.get("queues"):
        raise none
    settings = validate(MasterSettings, document)
    return settings.queue_records(), settings.quota_records() if "quotas" in document.value else None


def parse_quota_file(text: bytes | str, source: str) -> tuple[Quota, ...]:
    """Return the quotas of a master's config file, or of one that holds only `quotas`. Raises ConfigError."""
    none = ConfigError(f"{source}: no quotas in it: write at least quotas: []")
    document = _sharing_document(text, source, none)
    if "quotas" not in document.value:
        raise none
    return validate(MasterSettings, document).quota_records()


def _sharing_document(text: bytes | str, source: str, none: ConfigError) -> Document:
    """Return the one document of a file, with keys and values at its top. Raises `none` where there is no such
    document, and ConfigError."""
    documents = read_documents(text, source)
    if len(documents) > 1:
        raise documents[1].error((), "a file of queues and quotas holds one document")
    if not documents or not isinstance(documents[0].value, dict):
        raise none
    return documents[0]


def looks_like_agent(text: bytes, source: str) -> bool:
    """Return whether a config file has more keys of an agent than of a master."""
    documents = read_documents(text, source)
    keys = set(documents[0].value) if documents and isinstance(documents[0].value, dict) else set()
    return len(keys & set(AgentSettings.model_fields)) > len(keys & set(MasterSettings.model_fields))


def _load(model: type[S], keys: Mapping[str, Path], config_path: str | None, flags: Mapping[str, object]) -> S:
    document = _from_file(config_path)
    if not isinstance(document.value, dict):
        raise document.error((), "expected keys and values at the top")
    origins = dict(document.origins)
    for option, path in keys.items():
        variable, flag = f"GOSCHED_{option.upper()}", f"--{option.replace('_', '-')}"
        if os.environ.get(variable):
            _set(document, path, os.environ[variable], origins, variable)
        if flags.get(option) is not None:
            _set(document, path, flags[option], origins, flag)
    settings = validate(model, Document(value=document.value, source=document.source, origins=origins))
    settings._origins = {dotted(path): origin for path, origin in origins.items()}
    return settings


def _from_file(path: str | None) -> Document:
    if path is None:
        return Document(value={}, source="settings")
    documents = read_documents(read_file(path, what="config file"), path)
    if len(documents) > 1:
        raise documents[1].error((), "a config file holds one document")
    return documents[0] if documents else Document(value={}, source=path)


def _set(document: Document, path: Path, value: Any, origins: dict[Path, str], origin: str) -> None:
    branch = document.value
    for part in path[:-1]:
        if branch.get(part) is None:
            branch[part] = {}
        branch = branch[part]
        if not isinstance(branch, dict):
            return  # what stands there is wrong, and validation says so with its place
    for inner in [known for known in origins if known[: len(path)] == path]:
        del origins[inner]
    branch[path[-1]] = value
    origins[path] = origin


def _with(settings: S, **changes: object) -> S:
    return settings.model_copy(update=changes)


def _default_data_dir(program: str) -> str:
    """Return where daemons of root keep state, as services do, and other users in their home."""
    base = FilePath("/var/lib/gosched") if os.geteuid() == 0 else FilePath.home() / ".local" / "state" / "gosched"
    return str(base / program)
