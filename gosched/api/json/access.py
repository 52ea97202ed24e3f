"""The JSON of bindings and tokens."""

from __future__ import annotations

from gosched.api.access import AccessCheck, NewToken
from gosched.api.json.document import Document
from gosched.core.records.access import Binding, Token

binding_json = Document(
    Binding, "name", "role=role_word", "users", "groups", "tenants", "queues", "accounts", "ceiling"
)
access_check_json = Document(AccessCheck, "user", "groups", "roles", "allowed", "by")
token_json = Document(
    Token, "id", "name", "user", "groups", "role=role_word", "tenants", "queues", "created_at_ms", "expires_at_ms"
)
new_token_json = Document(
    NewToken,
    "token.id",
    "token.name",
    "token.user",
    "token.groups",
    "role=token.role_word",
    "token.tenants",
    "token.queues",
    "token.created_at_ms",
    "token.expires_at_ms",
    "secret",
    "revision",
)
