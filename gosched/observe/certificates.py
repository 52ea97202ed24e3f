"""The metrics of a program's certificates: when they end, and which authorities it trusts.

Invariant: series are bounded (`MAX_AUTHORITIES`), and are those of the files in use, whatever lies on the disk.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from gosched.wire.tls_expiry import Expiry

_LABELS = ("kind", "id", "authority")


class CertificateGauges(Collector):
    """`expiries` is called at each scrape."""

    def __init__(self, expiries: Callable[[], Iterable[Expiry]]) -> None:
        self._expiries = expiries

    def collect(self) -> Iterable[Metric]:
        ends = GaugeMetricFamily(
            "gosched_certificate_expiry_timestamp_seconds",
            "Seconds since 1970 at which a certificate in use expires",
            labels=_LABELS,
        )
        renewals = GaugeMetricFamily(
            "gosched_certificate_renewal_timestamp_seconds",
            "Seconds since 1970 from which on a certificate in use should be renewed",
            labels=_LABELS,
        )
        for found in self._expiries():
            labels = ("authority" if found.is_authority else "own", found.id, found.authority)
            ends.add_metric(labels, found.ends_s)
            renewals.add_metric(labels, found.renewal_s)
        yield ends
        yield renewals

    def describe(self) -> Iterable[Metric]:
        return ()  # registering must not collect
