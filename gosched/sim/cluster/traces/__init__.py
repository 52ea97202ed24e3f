"""Readers of traces, one file for each format.

Invariant: they know the formats and nothing of the simulator.
"""

from __future__ import annotations

from pathlib import Path

from gosched.config import ConfigError
from gosched.sim.cluster.trace import MAX_TRACE_BYTES, Trace
from gosched.sim.cluster.traces import native, openb, swf, swim
from gosched.sim.cluster.traces.nodes import read_nodes
from gosched.sim.cluster.traces.swf import Processors

FORMATS = ("openb", "swf", "swim", "yaml")
_BY_ENDING = {".csv": "openb", ".swf": "swf", ".tsv": "swim", ".yaml": "yaml", ".yml": "yaml"}


def read_trace(path: Path, kind: str = "", processors: Processors | None = None) -> Trace:
    """Read a trace. `kind`: one of FORMATS, or empty: by the file's ending. `processors`: of an SWF log. Raises
    ConfigError."""
    kind = kind or _BY_ENDING.get(path.suffix, "")
    if not kind:
        raise ConfigError(f"{path}: what is in it? Say so with --format {'|'.join(FORMATS)}")
    text = read_text(path)
    if kind == "openb":
        return openb.read(text, str(path))
    if kind == "swf":
        return swf.read(text, str(path), processors)
    if kind == "swim":
        return swim.read(text, str(path))
    return native.read(text, str(path))


def read_text(path: Path) -> str:
    try:
        if path.stat().st_size > MAX_TRACE_BYTES:
            raise ConfigError(f"{path}: larger than {MAX_TRACE_BYTES >> 20} MiB, the most that is read")
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: cannot read it: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 text (at byte {error.start})") from error


__all__ = ["FORMATS", "Processors", "read_nodes", "read_text", "read_trace"]
