"""Which tokens the verifier takes; its issuer is a real server."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import random
import sys
from collections.abc import Iterator
from types import FrameType, SimpleNamespace
from typing import Any, get_args

import jwt
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec
from hypothesis import given, settings
from hypothesis import strategies as st

from gosched.config.oidc_model import Oidc, SignatureAlgorithm
from gosched.identity.claims import VerifiedToken
from gosched.identity.compact import read_compact
from gosched.identity.discovery import BadDocument
from gosched.identity.key_set import KeySet, read_key_set
from gosched.identity.oidc import OidcVerifier
from gosched.identity.refusal import Check, Refusal
from tests.identity.issuer import NOW_MS, NOW_S, Issuer, ec_key, ed_key, encoded, issuer, jwk, rsa_key


@pytest.fixture(scope="module")
def shared() -> Iterator[Issuer]:
    with issuer() as running:
        running.keys = [*running.keys, jwk(ed_key("d"), kid="d", alg="EdDSA")]
        yield running


def verifier(of: Issuer, **more: Any) -> OidcVerifier:
    oidc = Oidc.model_validate({"issuer": of.url, "client_id": "gosched", **more})
    return OidcVerifier(oidc, now_ms=lambda: NOW_MS)


def verify(of: Issuer, token: str, **more: Any) -> VerifiedToken | Refusal:
    async def main() -> VerifiedToken | Refusal:
        checking = verifier(of, **more)
        try:
            return await checking.verify(token)
        finally:
            await checking.close()

    return asyncio.run(main())


def refused(of: Issuer, token: str, **more: Any) -> Refusal:
    found = verify(of, token, **more)
    assert isinstance(found, Refusal), found
    assert found.detail.isprintable()
    assert len(found.detail) < 1000
    assert found.for_caller == "the token is not valid: log in again with goschedctl login"
    return found


def test_a_valid_token_names_the_user_and_the_groups(shared: Issuer) -> None:
    assert verify(shared, shared.token()) == VerifiedToken(
        user="oidc:alice@example.com",
        groups=("oidc:admins", "oidc:ml"),
        expires_ms=NOW_MS + 600_000,
        subject="0001",
    )


@pytest.mark.parametrize(
    ("key", "alg", "kid"), [(rsa_key("a"), "RS256", "a"), (ec_key("e"), "ES256", "e"), (ed_key("d"), "EdDSA", "d")]
)
def test_keys_of_each_type_verify_their_own_algorithm(shared: Issuer, key: Any, alg: str, kid: str) -> None:
    algorithms = ["RS256", "ES256", "EdDSA"]
    assert isinstance(verify(shared, shared.token(key, alg, kid), algorithms=algorithms), VerifiedToken)
    other = next(one for one in algorithms if one != alg)
    _head, body, signature = shared.token(key, alg, kid).split(".")
    swapped = encoded({"alg": other, "kid": kid})
    assert refused(shared, f"{swapped}.{body}.{signature}", algorithms=algorithms).check is Check.KEY


@pytest.mark.parametrize("alg", get_args(SignatureAlgorithm))
def test_each_algorithm_takes_its_own_signature_and_no_other(alg: str) -> None:
    curves = {"ES256": ec.SECP256R1(), "ES384": ec.SECP384R1(), "ES512": ec.SECP521R1()}
    key = ec.generate_private_key(curves[alg]) if alg in curves else ed_key("d") if alg == "EdDSA" else rsa_key("a")
    with issuer() as running:
        running.keys = [jwk(key, kid="k")]
        token, other = (running.token(key, alg, "k", n=n) for n in (1, 2))
        assert isinstance(verify(running, token, algorithms=[alg]), VerifiedToken)
        head, body, signature = token.split(".")
        raw = base64.urlsafe_b64decode(signature + "==")
        flipped = bytes([raw[0] ^ 1, *raw[1:]]), bytes([*raw[:-1], raw[-1] ^ 1])
        wrong = [*flipped, raw[:-1], raw + b"\0", b"", b"\0", b"\0" * len(raw), raw[::-1], raw * 2]
        for one in [*map(encoded, wrong), other.split(".")[2]]:
            assert refused(running, f"{head}.{body}.{one}", algorithms=[alg]).check is Check.SIGNATURE


def test_what_a_token_costs_does_not_grow_with_each_of_its_letters(shared: Issuer) -> None:
    async def calls(token: str) -> int:
        """Return how many functions of Python a verification calls, its generators' steps among them."""
        made = 0

        def count(frame: FrameType, event: str, what: object) -> None:
            nonlocal made
            made += event == "call"

        checking = verifier(shared)
        try:
            assert isinstance(await checking.verify(token), VerifiedToken)  # with the keys
            sys.setprofile(count)
            await checking.verify(token)
        finally:
            sys.setprofile(None)
            await checking.close()
        return made

    short, long = (asyncio.run(calls(shared.token(text="ü" * 10 + "x" * letters))) for letters in (1, 4000))
    assert 10 < short < 1000  # it counts
    assert long - short < 10


def test_an_algorithm_that_the_settings_do_not_list_is_refused(shared: Issuer) -> None:
    assert refused(shared, shared.token(alg="PS256")).check is Check.ALGORITHM
    assert refused(shared, shared.token(ed_key("d"), "EdDSA", "d")).check is Check.ALGORITHM


@pytest.mark.parametrize("alg", ["none", "None", "NONE", "", None, ["RS256"], {"a": 1}, 1])
def test_a_token_without_a_signature_is_refused(shared: Issuer, alg: object) -> None:
    head = encoded({"alg": alg, "kid": "a", "typ": "JWT"})
    body = encoded(shared.claims())
    for signature in ("", "AA", shared.token().split(".")[2]):
        assert refused(shared, f"{head}.{body}.{signature}").check is Check.ALGORITHM


def test_a_public_key_is_no_secret_of_an_hmac(shared: Issuer) -> None:
    public = rsa_key("a").public_key()
    for form in (serialization.PublicFormat.SubjectPublicKeyInfo, serialization.PublicFormat.PKCS1):
        pem = public.public_bytes(serialization.Encoding.PEM, form)
        for said in ("HS256", "RS256"):  # with the name of its algorithm, and with another
            signed = f"{encoded({'alg': said, 'kid': 'a'})}.{encoded(shared.claims())}"
            mac = hmac.new(pem, signed.encode(), hashlib.sha256).digest()
            check = refused(shared, f"{signed}.{encoded(mac)}").check
            assert check is (Check.ALGORITHM if said == "HS256" else Check.SIGNATURE)


@pytest.mark.parametrize(
    ("claims", "check"),
    [
        ({"aud": "other"}, Check.AUDIENCE),
        ({"aud": ["other"]}, Check.AUDIENCE),
        ({"aud": None}, Check.AUDIENCE),
        ({"aud": {"gosched": 1}}, Check.AUDIENCE),
        ({"aud": "gosched2"}, Check.AUDIENCE),
        ({"aud": ["gosched", "other"]}, Check.AUDIENCE),
        ({"aud": ["gosched", "other"], "azp": "other"}, Check.AUDIENCE),
        ({"iss": "https://evil.example"}, Check.ISSUER),
        ({"iss": None}, Check.ISSUER),
        ({"iss": ["x"]}, Check.ISSUER),
        ({"exp": None}, Check.TIME),
        ({"exp": True}, Check.TIME),
        ({"exp": str(NOW_S + 600)}, Check.TIME),
        ({"exp": NOW_S - 31}, Check.TIME),
        ({"exp": 10**30}, Check.TIME),
        ({"exp": -1}, Check.TIME),
        ({"nbf": NOW_S + 31}, Check.TIME),
        ({"nbf": None, "iat": NOW_S + 31}, Check.TIME),
        ({"iat": "now"}, Check.TIME),
        ({"events": {}}, Check.TYPE),
        ({"cnf": {"jkt": "x"}}, Check.TYPE),
        ({"sub": None}, Check.NAME),
        ({"email": None}, Check.NAME),
        ({"email": "a\nb"}, Check.NAME),
        ({"email": " alice@example.com"}, Check.NAME),
        ({"email": "a" * 300}, Check.NAME),
        ({"email_verified": False}, Check.NAME),
        ({"email_verified": None}, Check.NAME),
        ({"email_verified": "true"}, Check.NAME),
        ({"groups": {"admins": 1}}, Check.NAME),
        ({"groups": ["a", 1]}, Check.NAME),
        ({"groups": [str(number) for number in range(257)]}, Check.NAME),
    ],
)
def test_claims_that_are_not_for_this_cluster_are_refused(shared: Issuer, claims: dict[str, Any], check: Check) -> None:
    key, head = rsa_key("a"), {"kid": "a"}
    token = jwt.api_jws.encode(json.dumps(shared.claims(**claims)).encode(), key, "RS256", head)
    assert refused(shared, token).check is check


@pytest.mark.parametrize(
    "claims",
    [
        {"exp": NOW_S - 29},
        {"nbf": NOW_S + 29},
        {"iat": None},
        {"exp": NOW_S + 60.5},
        {"aud": ["gosched"]},
        {"aud": ["other", "gosched"], "azp": "gosched"},
        {"groups": None},
        {"groups": "one"},
    ],
)
def test_claims_within_the_skew_and_the_standard_are_taken(shared: Issuer, claims: dict[str, Any]) -> None:
    key, head = rsa_key("a"), {"kid": "a"}
    token = jwt.api_jws.encode(json.dumps(shared.claims(**claims)).encode(), key, "RS256", head)
    assert isinstance(verify(shared, token), VerifiedToken)


@pytest.mark.parametrize(
    ("header", "check"),
    [
        ({"typ": "logout+jwt"}, Check.TYPE),
        ({"typ": 1}, Check.TYPE),
        ({"crit": ["exp"]}, Check.FORMAT),
        ({"crit": []}, Check.FORMAT),
        ({"b64": False}, Check.FORMAT),
        ({"cty": "JWT"}, Check.FORMAT),
        ({"enc": "A256GCM"}, Check.FORMAT),
        ({"zip": "DEF"}, Check.FORMAT),
        ({"kid": 1}, Check.KEY),
        ({"kid": "x" * 257}, Check.KEY),
        ({"kid": "nobody"}, Check.KEY),
        ({"kid": "e"}, Check.KEY),
    ],
)
def test_headers_of_other_kinds_are_refused(shared: Issuer, header: dict[str, Any], check: Check) -> None:
    head = encoded({"alg": "RS256", "kid": "a", "typ": "JWT", **header})
    body, signature = shared.token().split(".")[1:]
    assert refused(shared, f"{head}.{body}.{signature}").check is check


def test_a_key_in_the_header_is_not_used(shared: Issuer) -> None:
    forged = rsa_key("forger")
    header = {"jwk": jwk(forged), "jku": "https://evil.example/keys", "x5c": ["AA=="]}
    assert refused(shared, shared.token(forged, header=header)).check is Check.SIGNATURE
    assert refused(shared, shared.token(forged, kid="forger", header=header)).check is Check.KEY


def test_an_access_token_is_taken_where_the_audience_is_an_apis(shared: Issuer) -> None:
    token = shared.token(header={"typ": "at+jwt"}, aud="https://gosched.example")
    assert isinstance(verify(shared, token, audience="https://gosched.example"), VerifiedToken)
    assert refused(shared, token).check is Check.AUDIENCE


def test_a_token_without_a_kid_has_the_one_key_that_fits(shared: Issuer) -> None:
    assert isinstance(verify(shared, shared.token(kid=None)), VerifiedToken)
    with issuer() as other:
        other.keys = [*other.keys, jwk(rsa_key("b"), kid="b")]
        assert refused(other, other.token(kid=None)).check is Check.KEY


def test_keys_that_are_given_twice_are_refused(shared: Issuer) -> None:
    body, signature = shared.token().split(".")[1:]
    head = encoded(b'{"alg":"RS256","kid":"a","kid":"a"}')
    assert refused(shared, f"{head}.{body}.{signature}").check is Check.FORMAT
    twice = b'{"iss":"x",' + json.dumps({"iss": shared.url}).encode()[1:]
    assert refused(shared, f"{encoded({'alg': 'RS256'})}.{encoded(twice)}.AA").check is Check.FORMAT


def test_huge_nested_and_encrypted_tokens_are_refused(shared: Issuer) -> None:
    assert refused(shared, shared.token(padding="x" * 8192)).check is Check.FORMAT
    assert refused(shared, "a" * 10_000_000).check is Check.FORMAT
    deep = encoded(b"[" * 3000 + b"]" * 3000)
    assert refused(shared, f"{deep}.AA.AA").check is Check.FORMAT
    assert "JWE" in refused(shared, "AA.AA.AA.AA.AA").detail


def test_a_detail_names_the_check_and_the_facts_without_the_token(shared: Issuer) -> None:
    token = shared.token(aud="other\x1b[31m")
    found = refused(shared, token)
    assert "aud is 'other\\x1b[31m', without 'gosched'" in found.detail
    assert "kid: 'a'" in found.detail
    assert f"exp: {NOW_S + 600}" in found.detail
    assert token.split(".")[2] not in found.detail


def test_keys_that_are_weak_private_or_for_something_else_are_left_out() -> None:
    good = jwk(rsa_key("a"), kid="a")
    private = jwt.algorithms.RSAAlgorithm.to_jwk(rsa_key("b"), as_dict=True)
    bad: list[Any] = [
        jwk(rsa_key("small", 1024), kid="small"),
        {**private, "kid": "private"},
        {**good, "use": "enc"},
        {**good, "key_ops": ["encrypt"]},
        {**good, "alg": "HS256"},
        {**good, "n": "AA"},
        {**good, "e": "AA"},
        {**good, "kid": 1},
        {"kty": "oct", "k": "c2VjcmV0", "kid": "oct"},
        {"kty": "EC", "crv": "secp256k1", "x": "AA", "y": "AA"},
        {"kty": "EC", "crv": "P-256", "x": "AA", "y": "AA"},
        {"kty": []},
        "x",
    ]
    assert [key.kid for key in read_key_set(json.dumps({"keys": [*bad, good]}).encode()).keys] == ["a"]


# What anybody may send, and what anybody may do to a token that was good.


class _Kept:
    """One verifier with the keys at hand, and a loop to run it in."""

    def __init__(self, of: Issuer) -> None:
        self.loop = asyncio.new_event_loop()
        self.checking = verifier(of)
        self.valid = of.token()
        assert isinstance(self.verify(self.valid), VerifiedToken)

    def verify(self, token: str) -> VerifiedToken | Refusal:
        return self.loop.run_until_complete(self.checking.verify(token))


@pytest.fixture(scope="module")
def kept(shared: Issuer) -> Iterator[_Kept]:
    found = _Kept(shared)
    yield found
    found.loop.run_until_complete(found.checking.close())
    found.loop.close()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)
_NAMES = st.sampled_from(
    ["alg", "kid", "typ", "crit", "iss", "aud", "azp", "exp", "nbf", "iat", "sub", "email", "groups"]
)


@settings(max_examples=300, deadline=None)
@given(st.text() | st.binary().map(lambda raw: raw.decode("latin-1")) | st.from_regex(r"[\w-]+\.[\w-]+\.[\w-]*"))
def test_any_text_is_refused_and_raises_nothing(kept: _Kept, text: str) -> None:
    assert isinstance(kept.verify(text), Refusal)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(_NAMES, _JSON), st.dictionaries(_NAMES, _JSON), st.binary(max_size=300))
def test_any_json_in_a_token_is_refused_and_raises_nothing(
    kept: _Kept, header: dict[str, Any], claims: dict[str, Any], signature: bytes
) -> None:
    head, body = json.loads(base64.urlsafe_b64decode(kept.valid.split(".")[0] + "==")), _claims_of(kept.valid)
    for first, second in ((header, claims), ({**head, **header}, {**body, **claims}), ({**head, **header}, body)):
        token = f"{encoded(first)}.{encoded(second)}.{encoded(signature)}"
        found = kept.verify(token)
        assert isinstance(found, Refusal)
        assert found.detail.isprintable()


def _claims_of(token: str) -> dict[str, Any]:
    part = token.split(".")[1]
    return dict(json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))))


def _mutated(token: str, rng: random.Random) -> str:
    """Another text, near to the token: a letter changed, added, removed, doubled, or two places swapped."""
    place, letter = rng.randrange(len(token)), rng.choice("ABCabc019-_.=+/! \n\u00e9")
    match rng.randrange(5):
        case 0:
            return token[:place] + letter + token[place + 1 :]
        case 1:
            return token[:place] + letter + token[place:]
        case 2:
            return token[:place] + token[place + 1 :]
        case 3:
            return token + letter * rng.choice((1, 4))
        case _:
            other = rng.randrange(len(token))
            letters = list(token)
            letters[place], letters[other] = letters[other], letters[place]
            return "".join(letters)


def _accepted_mutant(kept: _Kept, seed: int) -> str | None:
    rng = random.Random(seed)
    for _ in range(1500):
        mutant = _mutated(kept.valid, rng)
        if mutant != kept.valid and isinstance(kept.verify(mutant), VerifiedToken):
            return mutant
    return None


@pytest.mark.parametrize("seed", [1, 2])
def test_no_other_text_than_the_token_is_taken(kept: _Kept, seed: int) -> None:
    assert _accepted_mutant(kept, seed) is None


def test_a_token_has_one_spelling(kept: _Kept) -> None:
    head, body, signature = kept.valid.split(".")
    last = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
    spare = signature[:-1] + last[last.index(signature[-1]) ^ 1]
    for other in (f"{signature}=", f"{signature}====", f"{signature}!!!!", f"{signature}\n", spare):
        found = read_compact(f"{head}.{body}.{other}")
        assert isinstance(found, Refusal)


def test_that_property_finds_a_verifier_without_signatures(kept: _Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    takes_all = SimpleNamespace(verify=lambda *anything: True)
    monkeypatch.setattr("gosched.identity.oidc._SIGNATURES.get_algorithm_by_name", lambda name: takes_all)
    assert _accepted_mutant(kept, 1) is not None


@settings(max_examples=200, deadline=None)
@given(
    st.binary() | st.lists(st.dictionaries(st.sampled_from(["kty", "kid", "n", "e", "x", "y", "crv", "alg"]), _JSON))
)
def test_any_key_set_is_read_or_refused(raw: Any) -> None:
    try:
        found = read_key_set(raw if isinstance(raw, bytes) else json.dumps({"keys": raw}).encode())
    except BadDocument:
        return
    assert isinstance(found, KeySet)
