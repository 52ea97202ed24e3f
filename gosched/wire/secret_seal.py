"""Seals secrets of tenants: AES-256-GCM with a random nonce, under a key of the masters' keyring.

The tenant, the name, the key and the cluster are authenticated with the value. Invariant: a ciphertext opens in its own
place alone; one that was moved to another name, tenant or cluster, or was changed, does not open.
"""

from __future__ import annotations

import base64
import binascii
import secrets

from gosched.core.records.secret import Secret
from gosched.wire.secret_keys import Key, Keyring

_NONCE_BYTES = 12
_PURPOSE = "gosched secret 1"


class CannotOpen(Exception):
    """Why a secret cannot be opened, in one line that says nothing of its value."""


def seal(value: bytes, key: Key, *, tenant: str, name: str, cluster_id: str) -> str:
    """Return the text of a ciphertext."""
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = secrets.token_bytes(_NONCE_BYTES)
    bound = _bound(tenant, name, key.id, cluster_id)
    return base64.b64encode(nonce + AESGCM(key.value).encrypt(nonce, value, bound)).decode()


def unseal(secret: Secret, keyring: Keyring, clusters: tuple[str, ...]) -> bytes:
    """Return the value. `clusters`: the id of this cluster and of those whose backups it was restored from. Raises
    CannotOpen."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    key = keyring.find(secret.key_id)
    if key is None:
        raise CannotOpen(
            f"secret {secret.key} is sealed with key {secret.key_id}, which the masters do not have: put it back into"
            " their keyring"
        )
    if secret.cluster_id not in clusters:
        raise CannotOpen(f"secret {secret.key} was sealed in another cluster: set it again")
    try:
        sealed = base64.b64decode(secret.sealed, validate=True)
        bound = _bound(secret.tenant, secret.name, secret.key_id, secret.cluster_id)
        return AESGCM(key.value).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], bound)
    except (InvalidTag, binascii.Error, ValueError):
        raise CannotOpen(
            f"secret {secret.key} does not open with key {secret.key_id}: the key is another one of that id, or the"
            " ciphertext was changed: set the secret again"
        ) from None


def _bound(tenant: str, name: str, key_id: str, cluster_id: str) -> bytes:
    # None of them holds a NUL: two different lists never make the same bytes.
    return "\0".join((_PURPOSE, cluster_id, tenant, name, key_id)).encode()
