"""The JSON of secrets: names, and never values."""

from __future__ import annotations

from gosched.api.json.document import Document
from gosched.api.secrets import Rotation, SecretInfo

secret_json = Document(SecretInfo, "tenant", "name", "key_id", "version", "changed_at_ms", "changed_by")
rotation_json = Document(Rotation, "key_id", "resealed", "revision")
