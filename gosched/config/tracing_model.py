"""The key `tracing` of both daemons' configs: where spans are sent, how many, and as whose."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BeforeValidator, Field

from gosched.config.errors import shown
from gosched.config.validation import Model, Pairs
from gosched.core.limits import MAX_RULES

TRACES_PATH = "/v1/traces"  # of OTLP over HTTP


def _endpoint(value: str) -> str:
    """Check the URL of a collector."""
    if value and not _is_url(value):
        raise ValueError(f"expected the URL of a collector such as http://collector:4318, got {shown(value)}")
    return value.rstrip("/")


def _is_url(value: str) -> bool:
    try:
        parts = urlsplit(value)
        return bool(parts.scheme in ("http", "https") and parts.hostname and parts.port != 0 and value.isprintable())
    except ValueError:  # of the port, or of an address in brackets
        return False


def _share(value: object) -> float:
    """Read a number from 0 to 1, also as the text of an environment variable."""
    try:
        share = float(value) if isinstance(value, str | int | float | Decimal) and not isinstance(value, bool) else -1.0
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise ValueError(f"expected a share from 0 to 1, such as 0.1, got {shown(value)}")
    return share


class Tracing(Model):
    """Traces over OTLP/HTTP, which needs the extra `otel`. What is left out is as OpenTelemetry's own variables say,
    such as OTEL_EXPORTER_OTLP_HEADERS."""

    #: URL of the collector, to which /v1/traces is added unless it is there; empty: nothing is traced.
    endpoint: Annotated[str, AfterValidator(_endpoint)] = ""
    #: The share of jobs that are traced, of those that came with no context of their caller.
    sample: Annotated[float, BeforeValidator(_share)] = 1.0
    #: Sent with each request.
    headers: Annotated[Pairs, Field(max_length=MAX_RULES)] = ()
    #: Of the resource, such as deployment.environment.name.
    attributes: Annotated[Pairs, Field(max_length=MAX_RULES)] = ()

    @property
    def url(self) -> str:
        return self.endpoint if self.endpoint.endswith(TRACES_PATH) else self.endpoint + TRACES_PATH
