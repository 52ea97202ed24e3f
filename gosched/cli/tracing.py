"""The command line's own spans: recorded where the environment names a collector, as OpenTelemetry's variables do.

A step of a pipeline that is traced sets TRACEPARENT; its job then continues that trace, with or without a collector.

Invariant: tracing never fails a command, nor holds one up for longer than CLOSE_S.
"""

from __future__ import annotations

import os
import threading
from contextlib import suppress

import click

SEND_S = 1.0  # where OTEL_EXPORTER_OTLP_TIMEOUT says nothing
CLOSE_S = 1.5

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")


def trace_this(ctx: click.Context) -> None:
    """Record this command's spans, if the environment says where to send them and the extra `otel` is installed."""
    if not any(os.environ.get(name) for name in _ENDPOINTS) or _is_off():
        return
    # The variables may be there for other programs: without the extra, the context is passed on all the same.
    with suppress(ModuleNotFoundError):
        _begin(ctx)


def _is_off() -> bool:
    """Return whether the environment wants no traces, or wants them in a way that is not here."""
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    exporter = os.environ.get("OTEL_TRACES_EXPORTER") or "otlp"
    default = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL") or "http/protobuf"
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL") or default
    return disabled or exporter != "otlp" or protocol != "http/protobuf"


def _begin(ctx: click.Context) -> None:
    import logging

    from opentelemetry import trace
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL + 1)  # a collector that is down is no news here
    told = any(os.environ.get(f"{name[: -len('ENDPOINT')]}TIMEOUT") for name in _ENDPOINTS)
    exporter = OTLPSpanExporter(timeout=None if told else SEND_S)
    own = {"service.name": os.environ.get("OTEL_SERVICE_NAME") or "goschedctl", "service.namespace": "gosched"}
    provider = TracerProvider(resource=Resource.create(own))
    provider.add_span_processor(BatchSpanProcessor(exporter))
    trace.set_tracer_provider(provider)

    def close() -> None:
        last = threading.Thread(target=provider.shutdown, daemon=True)
        last.start()
        last.join(CLOSE_S)

    ctx.call_on_close(close)
