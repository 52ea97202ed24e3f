"""The JSON of revoked certificates."""

from __future__ import annotations

from gosched.api.json.document import Document
from gosched.core.records.revocation import Revocation

revocation_json = Document(
    Revocation, "certificate", "holder", "role", "reason", "by", "revoked_at=at_ms", "ends_at_ms"
)
