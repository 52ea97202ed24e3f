"""A real OpenTelemetry collector, by tools/otel_collector.sh, and what it got, as its debug exporter shows it."""

from __future__ import annotations

import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gosched.observe.tracing_otlp import DELAY_S, SEND_S
from tests.integration.support import PATIENCE_S, until

BUILD = Path(__file__).parents[2] / "tools" / "otel_collector.sh"
BUILD_S = 600.0

_FIELDS = {
    "Trace ID": "trace_id",
    "Parent ID": "parent_id",
    "ID": "span_id",
    "Name": "name",
    "Kind": "kind",
    "Status code": "status",
}
_FIELD = re.compile(r"    ([A-Z][A-Za-z ]*?)\s*: ?(.*)$")
_CONFIG = """\
receivers: {{otlp: {{protocols: {{http: {{endpoint: "127.0.0.1:{port}"}}}}}}}}
exporters: {{debug: {{verbosity: detailed, use_internal_logger: false}}}}
service:
  telemetry: {{metrics: {{level: none}}}}
  pipelines: {{traces: {{receivers: [otlp], exporters: [debug]}}}}
"""


@dataclass(slots=True)
class Seen:
    """A span as the collector shows it. `service`: of its resource."""

    service: str = ""
    trace_id: str = ""
    parent_id: str = ""
    span_id: str = ""
    name: str = ""
    kind: str = ""
    status: str = ""
    attributes: dict[str, str] = field(default_factory=dict)
    events: list[str] = field(default_factory=list)


class OtelCollector:
    """A collector that runs; `kill` and `start` as often as a test likes, always on the same port."""

    def __init__(self, program: Path, directory: Path) -> None:
        self._program = program
        self._output = directory / "collector.out"
        self._config = directory / "collector.yaml"
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            self._port = int(found.getsockname()[1])
        self._config.write_text(_CONFIG.format(port=self._port))
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}"

    def start(self) -> None:
        with self._output.open("ab") as output:
            self._process = subprocess.Popen(
                [self._program, "--config", f"file:{self._config}"], stdout=output, stderr=output
            )
        until(self._listens, f"the collector listens:\n{self._output.read_text()[-2000:]}")

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(PATIENCE_S)
            self._process = None

    def spans(self) -> list[Seen]:
        """All spans so far, in the order in which they came."""
        return parse(self._output.read_text(errors="replace"))

    def trace(self, trace_id: str) -> list[Seen]:
        return [span for span in self.spans() if span.trace_id == trace_id]

    def until_quiet(self, seconds: float = DELAY_S + SEND_S + 2) -> None:
        """Returns once nothing has come for longer than a daemon keeps its spans, and tries to send those before."""
        size, since = -1, time.monotonic()
        ends = since + PATIENCE_S
        while time.monotonic() - since < seconds:
            assert time.monotonic() < ends, "spans come and come"
            now = self._output.stat().st_size
            if now != size:
                size, since = now, time.monotonic()
            time.sleep(0.05)

    def _listens(self) -> bool:
        with socket.socket() as trial:
            return trial.connect_ex(("127.0.0.1", self._port)) == 0


@contextmanager
def collector(directory: Path) -> Iterator[OtelCollector]:
    made = subprocess.run([BUILD], capture_output=True, text=True, timeout=BUILD_S, check=False)
    assert made.returncode == 0, made.stderr
    running = OtelCollector(Path(made.stdout.strip()), directory)
    running.start()
    try:
        yield running
    finally:
        running.kill()


def parse(text: str) -> list[Seen]:
    """Reads what the debug exporter wrote: a resource's attributes, then its spans with fields, attributes, events."""
    spans: list[Seen] = []
    service, within = "", ""
    for line in text.splitlines():
        if line.startswith("ResourceSpans #"):
            service, within = "", "resource"
        elif line.startswith("ScopeSpans #"):
            within = "scope"
        elif line.startswith("Span #"):
            spans.append(Seen(service=service))
            within = "span"
        elif pair := re.match(r"\s+-> (\S+): \w+\((.*)\)$", line):
            if within == "resource" and pair[1] == "service.name":
                service = pair[2]
            elif within == "span":
                spans[-1].attributes[pair[1]] = pair[2]
        elif event := re.match(r"\s+-> Name: (.*)$", line):
            spans[-1].events.append(event[1])
        elif line.startswith("SpanEvent #"):
            within = "event"
        elif within == "span" and (found := _FIELD.match(line)) and found[1] in _FIELDS:
            setattr(spans[-1], _FIELDS[found[1]], found[2].strip())
    return spans
