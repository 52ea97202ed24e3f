"""Finds the plugins that the config switches on, among those that installed packages offer.

Invariant: a plugin that cannot be loaded is an error at start, with a line that says what to change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import EntryPoint, entry_points

from gosched.config.settings import MasterSettings, PluginConfig
from gosched.master.planning.plugin_runner import PluginRunner
from gosched.scheduling import Policy
from gosched.scheduling.plugins.interface import API_VERSION, REQUEST_FIELDS, Plugin
from gosched.scheduling.policy import ALL

GROUP = "gosched.plugins"


def policy_of(settings: MasterSettings) -> Policy:
    """Return the planner's policy. Raises ConfigError for a plugin that cannot be loaded."""
    try:
        plugins = load_plugins(settings.plugins)
    except ValueError as error:
        raise settings.error("plugins", str(error)) from error
    runner = PluginRunner({plugin.name: plugin.timeout_ms for plugin in settings.plugins})
    policy = Policy.of(settings.server.algorithm, settings.topology, plugins, runner)
    rules = settings.scheduling
    return replace(
        policy,
        reservations=ALL if rules.reservations is None else rules.reservations,
        max_wait_ms=rules.overtake.max_wait_ms,
        max_victims=rules.max_victims,
        max_victims_per_tenant=rules.max_victims_per_tenant,
    )


def load_plugins(configs: Sequence[PluginConfig]) -> tuple[Plugin, ...]:
    """Return the plugins in the order of the config. Raises ValueError."""
    installed = {point.name: point for point in entry_points(group=GROUP)} if configs else {}
    return tuple([_load(config, installed) for config in configs])


def _load(config: PluginConfig, installed: dict[str, EntryPoint]) -> Plugin:
    name = config.name
    if name not in installed:
        raise ValueError(f"no plugin {name} is installed; there are {', '.join(sorted(installed)) or 'none'}")
    try:
        made = installed[name].load()
    except Exception as error:  # a module of another package, whatever is wrong with it
        raise ValueError(f"plugin {name} cannot be imported: {type(error).__name__}: {error}") from error
    if not (isinstance(made, type) and issubclass(made, Plugin)):
        raise ValueError(f"plugin {name} is no subclass of gosched.plugins.Plugin")
    if made.api_version != API_VERSION:
        raise ValueError(f"plugin {name} says api_version {made.api_version}; this gosched supports {API_VERSION}")
    try:
        plugin = made(dict(config.options))
    except ValueError as error:
        raise ValueError(f"plugin {name}: {error}") from error
    except Exception as error:
        raise ValueError(f"plugin {name} cannot be made: {type(error).__name__}: {error}") from error
    return _checked(plugin, name)


def _checked(plugin: Plugin, name: str) -> Plugin:
    if plugin.name != name:
        raise ValueError(f"plugin {name} calls itself {plugin.name!a}")
    unknown = [field for field in plugin.reads if field not in REQUEST_FIELDS]
    if unknown:
        raise ValueError(f"plugin {name} reads {unknown[0]!a}; there are {', '.join(REQUEST_FIELDS)}")
    for labels in (plugin.job_labels, plugin.tracked_labels, plugin.reads):
        if not isinstance(labels, tuple):
            raise ValueError(f"plugin {name} declares {labels!a}, expected a tuple")
    return plugin
