"""The key `oidc` of masters: whose tokens let a person in, and what the person is called here."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from gosched.config.errors import shown
from gosched.config.validation import Millis, Model
from gosched.core.records.access import LOCAL

#: Signatures with a private key alone: `none` has none, and the secret of HS256 would have to be on every master.
SignatureAlgorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
MAX_URL_LENGTH = 2048
MAX_CLAIM_LENGTH = 253
MAX_PREFIX_LENGTH = 32


def is_safe_url(value: str) -> bool:
    """Return whether a URL of an issuer is https, or http to this machine itself."""
    try:
        parts = urlsplit(value)
        host, port = parts.hostname, parts.port
    except ValueError:  # of the port, or of an address in brackets
        return False
    if not host or port == 0 or "@" in parts.netloc or parts.fragment or len(value) > MAX_URL_LENGTH:
        return False
    if not value.isascii() or not value.isprintable() or " " in value or "\\" in value:
        return False
    return parts.scheme == "https" or (parts.scheme == "http" and _is_loopback(host))


def issuer_url(value: str) -> str:
    """Check the URL of an issuer. It is compared letter by letter, so nothing of it is changed."""
    if not is_safe_url(value) or urlsplit(value).query or "?" in value:
        raise ValueError(f"expected the issuer's URL, such as https://login.example.com, got {shown(value)}")
    return value


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _plain(value: str) -> str:
    if not value.isprintable():
        raise ValueError(f"has control characters: {shown(value)}")
    return value


def _not_local(value: str) -> str:
    if value.startswith(LOCAL) or LOCAL.startswith(value):
        raise ValueError(f"{shown(value)} could begin {LOCAL}NAME, which is an account of a master's machine")
    return value


def _distinct(values: tuple[str, ...]) -> tuple[str, ...]:
    twice = next((value for value in values if values.count(value) > 1), None)
    if twice:
        raise ValueError(f"{twice} is given twice")
    return values


def _page_url(value: str) -> str:
    """Check where browsers reach the page: TLS alone, since its cookies go no other way."""
    parts = urlsplit(value) if is_safe_url(value) else None
    if parts is None or parts.scheme != "https" or parts.path not in ("", "/") or parts.query or "?" in value:
        raise ValueError(
            f"expected the page's URL without a path, such as https://gosched.example.com, got {shown(value)}"
        )
    return value.rstrip("/")


def _scope(value: str) -> str:
    if not value.isascii() or not value.isprintable() or any(sign in value for sign in ' "\\'):
        raise ValueError(f"expected one scope, such as groups, got {shown(value)}")
    return value


Word = Annotated[str, Field(min_length=1, max_length=MAX_CLAIM_LENGTH), AfterValidator(_plain)]
Prefix = Annotated[
    str, Field(min_length=1, max_length=MAX_PREFIX_LENGTH), AfterValidator(_plain), AfterValidator(_not_local)
]


class Oidc(Model):
    """An OpenID Connect issuer, and which of its tokens are taken. The client id alone is needed beside the issuer."""

    #: As it stands in `iss` of its tokens; https, or http on this machine's loopback.
    issuer: Annotated[str, AfterValidator(issuer_url)]
    #: By which `goschedctl login` is known to the issuer: a public client, without a secret.
    client_id: Word
    #: Must be in `aud` of a token; None: the client id, as in ID tokens.
    audience: Word | None = None
    #: The claim that is the user's name. Of `email` only one that the issuer has verified is taken.
    user_claim: Word = "email"
    #: The claim with a list of groups; a token without it is of no group.
    groups_claim: Word = "groups"
    #: Before each name, so that it is none of a certificate.
    user_prefix: Prefix = "oidc:"
    groups_prefix: Prefix = "oidc:"
    #: A token that says another one is refused, whatever its key.
    algorithms: Annotated[tuple[SignatureAlgorithm, ...], Field(min_length=1), AfterValidator(_distinct)] = (
        "RS256",
        "ES256",
    )
    #: Where browsers reach the page, to which the issuer sends them back; None: the page has no login at the issuer.
    page_url: Annotated[str, AfterValidator(_page_url)] | None = None
    #: What the page asks the issuer for, beside `openid`; None: of `email`, `profile` and `groups` what the issuer has.
    page_scopes: Annotated[tuple[Annotated[Word, AfterValidator(_scope)], ...], AfterValidator(_distinct)] | None = None
    #: File with the client's secret, which masters show for the page; None: the client is a public one.
    client_secret_file: str | None = None
    #: By how much the issuer's clock may differ from a master's.
    clock_skew_ms: Annotated[Millis, Field(ge=0, le=300_000)] = Field(default=30_000, alias="clock_skew")
    #: PEM file of the authority of the issuer's certificate; None: those that the system trusts.
    ca: str | None = None
    #: How often the keys are fetched: a key that the issuer has withdrawn is taken for so long.
    key_refresh_ms: Annotated[Millis, Field(ge=10_000, le=86_400_000)] = Field(default=600_000, alias="key_refresh")
    #: For how long the keys last fetched are taken while the issuer does not answer.
    key_cache_ms: Annotated[Millis, Field(ge=10_000, le=30 * 86_400_000)] = Field(default=86_400_000, alias="key_cache")

    @model_validator(mode="after")
    def _fits(self) -> Oidc:
        if self.key_cache_ms < self.key_refresh_ms:
            raise ValueError('"key_cache" is shorter than "key_refresh": keys would run out between two fetches')
        for key, value in (("page_scopes", self.page_scopes), ("client_secret_file", self.client_secret_file)):
            if value is not None and self.page_url is None:
                raise ValueError(f'"{key}" is for logins at the page: set "page_url", too')
        return self

    @property
    def expected_audience(self) -> str:
        return self.audience or self.client_id

    @property
    def page(self) -> str:
        """Return the page's URL, which is set."""
        assert self.page_url is not None, "there is a page"
        return self.page_url

    @property
    def redirect_uri(self) -> str:
        """Return where the issuer sends a browser back to."""
        return f"{self.page}/login/callback"
