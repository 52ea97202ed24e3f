"""The JSON of tokens with which agents join."""

from __future__ import annotations

from gosched.api.join import NewJoinToken
from gosched.api.json.document import Document
from gosched.core.records.join import JoinToken

join_token_json = Document(
    JoinToken,
    "id",
    "name",
    "node",
    "labels",
    "hosts",
    "state=state_word",
    "used_by",
    "used_at_ms",
    "created_at_ms",
    "expires_at_ms",
)
new_join_token_json = Document(
    NewJoinToken,
    "token.id",
    "token.name",
    "token.node",
    "token.labels",
    "token.hosts",
    "token.created_at_ms",
    "token.expires_at_ms",
    "secret",
    "address",
    "revision",
)
