"""How a daemon's process logs: its own records, those of libraries, and what is written to its descriptor 2.

Our records go to the real stderr through a buffer that never waits. Descriptor 2 becomes a pipe to a relay process
(`relay`), so that lines of C code become records too, and survive a crash. faulthandler writes to the real stderr.

Invariant: a library's records below a warning are shown at debug only.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import logging
import os
import subprocess
import sys
import threading
import warnings
from collections.abc import MutableMapping
from pathlib import Path
from typing import Any

import structlog

from gosched.core.text import printable_values
from gosched.logs.relay import lines_lost
from gosched.logs.render import LEVELS, Format, render
from gosched.stderr import BufferedStderr, open_stderr

# Without site-packages: an interpreter that looks for nothing starts in a few milliseconds, and stays small.
_RELAY = "import sys; sys.path.insert(0, sys.argv.pop(1)); from gosched.logs.relay import main; main()"
_SOURCES = str(Path(__file__).parents[2])
_RELAY_ENDS_S = 2.0
_HUNG_UP = ("grpc._cython.cygrpc", "ExecuteBatchError")  # the logger, and what a server meets whose caller has gone

log = structlog.get_logger()

Record = MutableMapping[str, Any]


def format_for(setting: str | None, fd: int = 2) -> Format:
    """Return the format: as it is set, else text on a terminal and JSON for everything else."""
    if setting in ("json", "console"):
        return "json" if setting == "json" else "console"
    return "console" if os.isatty(fd) else "json"


class ProcessLog:
    """The log of this process. `fields` are in each of its records, unless the record has them itself."""

    def __init__(self, out: BufferedStderr, real_fd: int, form: Format, level: str, fields: dict[str, Any]) -> None:
        self.out = out
        #: The real stderr, for children that log by themselves.
        self.real_fd = real_fd
        self.form: Format = form
        self.level = level
        self.fields = fields
        self._control: int | None = None
        self._relay: subprocess.Popen[bytes] | None = None

    def say(self, line: str) -> None:
        """Write a line as it is, for people: why the process does not start, or does not go on."""
        self.out.write(f"{line}\n")

    def set_level(self, level: str) -> None:
        """Show records from this level on, of this process and of its relay."""
        self.level = level
        # All of a library's at debug; otherwise a record that would be dropped here is not even made.
        logging.getLogger().setLevel(logging.DEBUG if level == "debug" else logging.WARNING)
        self._order({"level": level})

    def bind(self, **fields: str) -> None:
        self.fields |= fields
        self._order({"fields": fields})

    def for_child(self) -> dict[str, Any]:
        """Return what a child is told that logs by itself, for its `begin`; it inherits `real_fd` too."""
        return {"form": self.form, "level": self.level, "real_fd": self.real_fd, **self.fields}

    def start_relay(self) -> None:
        """Put a relay behind descriptor 2. Without one, what is written there stays as it is."""
        read_end, write_end = os.pipe()
        theirs, ours = os.pipe()
        command = [sys.executable, "-I", "-S", "-c", _RELAY, _SOURCES, str(theirs), self.form, self.level]
        command.append(render(self.fields, "json"))
        try:
            self._relay = subprocess.Popen(
                command,
                env={},
                stdin=read_end,
                stdout=self.real_fd,
                stderr=self.real_fd,
                pass_fds=(theirs,),
                start_new_session=True,
            )
        except OSError as error:
            os.close(ours)
            log.warning("lines of libraries are not made records", why=str(error))
        else:
            os.dup2(write_end, 2)
            self._control = ours
            atexit.register(self._end_relay)
        finally:
            for fd in (read_end, write_end, theirs):
                os.close(fd)

    def _end_relay(self) -> None:
        """Wait until it has written what it has: process 1 of a container takes all others with it when it ends."""
        sys.stderr.flush()
        os.dup2(self.real_fd, 2)
        if self._control is not None:
            os.close(self._control)
            self._control = None
        if self._relay is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._relay.wait(_RELAY_ENDS_S)

    def _order(self, order: dict[str, Any]) -> None:
        if self._control is None:
            return
        try:
            os.write(self._control, render(order, "json").encode() + b"\n")
        except OSError:  # the relay is gone: what it read is lost, and nothing else
            self._control = None

    # What structlog calls for each record

    def shown(self, _logger: Any, method: str, record: Record) -> Record:
        if LEVELS[_LEVEL_OF.get(method, method)] < LEVELS[self.level]:
            raise structlog.DropEvent
        return record

    def with_fields(self, _logger: Any, _method: str, record: Record) -> Record:
        for key, value in self.fields.items():
            record.setdefault(key, value)
        return record

    def rendered(self, _logger: Any, _method: str, record: Record) -> str:
        return render(record, self.form)


_LEVEL_OF = {"exception": "error", "warn": "warning", "fatal": "critical", "msg": "info"}
_current: ProcessLog | None = None


def begin(
    *, form: str | None = None, level: str = "info", real_fd: int | None = None, relay: bool = True, **fields: str
) -> ProcessLog:
    """Begin the log of this process; its main calls it once. `real_fd`: where its records go, if that is not its
    descriptor 2, which then is its parent's relay already."""
    global _current
    real = os.dup(2) if real_fd is None else real_fd
    os.set_inheritable(real, False)
    chosen = format_for(form, real)
    out = open_stderr(real, lambda count: render(lines_lost(count), chosen))
    _current = process = ProcessLog(out, real, chosen, level, dict(fields))
    _configure_structlog(process)
    _take_over_python(out.fileno())
    if relay:
        process.start_relay()
    process.set_level(level)
    return process


def current() -> ProcessLog | None:
    """Return the log of this process; None where it is no daemon's, such as in tests."""
    return _current


def shows_debug() -> bool:
    """Return whether records of the level debug are shown: for those who would make many that are dropped."""
    return _current is None or _current.level == "debug"


def say(line: str) -> None:
    """Write a line as it is to stderr, whether the log has begun or not."""
    if _current is not None:
        _current.say(line)
    else:
        print(line, file=sys.stderr)


def _configure_structlog(process: ProcessLog) -> None:
    structlog.configure(
        processors=[
            process.shown,
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            process.with_fields,
            structlog.processors.format_exc_info,
            printable_values,
            process.rendered,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(logging.DEBUG),
        logger_factory=structlog.WriteLoggerFactory(process.out),  # type: ignore[arg-type]
        cache_logger_on_first_use=False,
    )


def _take_over_python(real_fd: int) -> None:
    """Make records of what libraries log, of warnings, and of exceptions that nothing catches."""
    logging.basicConfig(handlers=[_FromLibraries()], level=logging.WARNING, force=True)
    warnings.showwarning = _warned
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread
    sys.unraisablehook = _unraisable
    faulthandler.enable(real_fd)


class _FromLibraries(logging.Handler):
    """Turns records of `logging` into ours. That a caller of gRPC hung up before its answer was sent is no error."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            words = record.getMessage()
        except (TypeError, ValueError):
            words = str(record.msg)  # its arguments do not fit: what there is of it
        trace = record.exc_info or None
        level = record.levelno if record.levelno >= logging.WARNING else logging.DEBUG
        if trace is not None and trace[0] is not None and (record.name, trace[0].__name__) == _HUNG_UP:
            level, trace = logging.DEBUG, None
        log.log(min(level // 10 * 10, logging.CRITICAL), words, logger=record.name, exc_info=trace)


def _warned(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
    log.warning(str(message), logger="warnings", category=category.__name__, where=f"{filename}:{lineno}")


def _uncaught(kind: Any, error: Any, trace: Any) -> None:
    log.critical("uncaught exception", why=repr(error), exc_info=(kind, error, trace))


def _uncaught_in_thread(about: threading.ExceptHookArgs) -> None:
    thread = about.thread.name if about.thread is not None else ""
    log.error(
        "a thread ended with an exception",
        thread=thread,
        why=repr(about.exc_value),
        exc_info=(about.exc_type, about.exc_value, about.exc_traceback),
    )


def _unraisable(about: Any) -> None:
    trace = (about.exc_type, about.exc_value, about.exc_traceback)
    log.error("an exception was ignored", why=repr(about.exc_value), where=repr(about.object), exc_info=trace)
