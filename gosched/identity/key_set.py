"""The keys by which an issuer's tokens are checked: a JSON Web Key Set (RFC 7517).

Invariant: a key verifies the algorithms of its own type alone, and is long enough. A key that cannot verify signatures
is left out; a set is never refused because of one key.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import jwt
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

from gosched.identity.discovery import BadDocument, read_object

MAX_KEYS = 64
MAX_KID_LENGTH = 256
_RSA_BITS = range(2048, 8192 + 1)
_MAX_RSA_EXPONENT = 1 << 32
_RSA = frozenset({"RS256", "RS384", "RS512", "PS256", "PS384", "PS512"})
_BY_CURVE = {"secp256r1": "ES256", "secp384r1": "ES384", "secp521r1": "ES512"}
#: One algorithm of each type of key, under which PyJWT reads it.
_READERS = {"RSA": "RS256", "P-256": "ES256", "P-384": "ES384", "P-521": "ES512", "Ed25519": "EdDSA"}


@dataclass(frozen=True, slots=True)
class Key:
    #: Empty: it has none.
    kid: str
    algorithms: frozenset[str]
    #: As the library of signatures takes it.
    public: Any


@dataclass(frozen=True, slots=True)
class KeySet:
    keys: tuple[Key, ...] = ()

    def find(self, kid: str, algorithm: str) -> Key | None:
        """Return the key that a token names. One that names none has a key only where no other fits."""
        fitting = [key for key in self.keys if algorithm in key.algorithms]
        if kid:
            return next((key for key in fitting if key.kid == kid), None)
        return fitting[0] if len(fitting) == 1 else None


def read_key_set(raw: bytes) -> KeySet:
    """Return the keys that can verify signatures. Raises BadDocument where there is none, or too many."""
    listed = read_object(raw, "the key set").get("keys")
    if not isinstance(listed, list):
        raise BadDocument("the key set has no list of keys")
    if len(listed) > MAX_KEYS:
        raise BadDocument(f"the key set has {len(listed)} keys; at most {MAX_KEYS}")
    keys = tuple(key for item in listed if isinstance(item, dict) and (key := _read_key(item)))
    if not keys:
        raise BadDocument("the key set has no key that can verify signatures")
    return KeySet(keys)


def _read_key(item: Mapping[str, Any]) -> Key | None:
    kid, use, operations = item.get("kid", ""), item.get("use", "sig"), item.get("key_ops", ["verify"])
    reader = _READERS.get(str(item.get("crv") if item.get("kty") in ("EC", "OKP") else item.get("kty")))
    if use != "sig" or not isinstance(operations, list) or "verify" not in operations or reader is None:
        return None
    if "d" in item or not isinstance(kid, str) or len(kid) > MAX_KID_LENGTH:  # `d`: a private key that all can read
        return None
    try:
        public = jwt.PyJWK.from_dict(dict(item), algorithm=reader).key
        own = _algorithms_of(public)
    except (jwt.PyJWTError, ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return None
    named = item.get("alg")
    algorithms = own if named is None else own & {str(named)}
    return Key(kid, algorithms, public) if algorithms else None


def _algorithms_of(public: object) -> frozenset[str]:
    match public:
        case RSAPublicKey():
            exponent = public.public_numbers().e
            sane = public.key_size in _RSA_BITS and exponent % 2 == 1 and 3 <= exponent < _MAX_RSA_EXPONENT
            return _RSA if sane else frozenset()
        case EllipticCurvePublicKey():
            return frozenset({_BY_CURVE[public.curve.name]}) if public.curve.name in _BY_CURVE else frozenset()
        case Ed25519PublicKey():
            return frozenset({"EdDSA"})
        case _:
            return frozenset()
