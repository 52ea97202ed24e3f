"""The key `join` of masters: with what they sign certificates of agents that join with a token."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from gosched.config.validation import Millis, Model
from gosched.core.limits import MAX_DURATION_MS


class Join(Model):
    """Paths of PEM files: an authority that `tls.ca` names, or an intermediate one that such an authority signed; and
    its key. `certificate_lasts`: agents renew when a third is left."""

    ca_cert: str
    ca_key: str
    certificate_lasts_ms: Annotated[Millis, Field(ge=10_000, le=MAX_DURATION_MS)] = Field(
        default=30 * 86_400_000, alias="certificate_lasts"
    )
