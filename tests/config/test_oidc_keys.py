"""The key `oidc` of masters."""

from __future__ import annotations

import pytest

from gosched.config import ConfigError, load_master_settings


def _load(tmp_path, keys: str):
    path = tmp_path / "config.yaml"
    path.write_text(f"oidc: {{{keys}}}")
    return load_master_settings(str(path), {}).oidc


def test_nobody_comes_with_a_token_unless_an_issuer_is_named():
    assert load_master_settings(None, {}).oidc is None


def test_an_issuer_and_a_client_id_suffice(tmp_path):
    oidc = _load(tmp_path, "issuer: 'https://login.example.com/a/', client_id: gosched")
    assert oidc.issuer == "https://login.example.com/a/"
    assert oidc.expected_audience == "gosched"
    assert oidc.algorithms == ("RS256", "ES256")
    assert (oidc.user_claim, oidc.user_prefix, oidc.clock_skew_ms) == ("email", "oidc:", 30_000)


@pytest.mark.parametrize("issuer", ["http://127.0.0.1:5556/dex", "http://localhost:80", "http://[::1]:1"])
def test_plain_http_is_for_this_machine(tmp_path, issuer):
    assert _load(tmp_path, f"issuer: '{issuer}', client_id: g").issuer == issuer


def test_a_page_at_which_people_log_in_takes_callers_without_certificates(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("oidc: {issuer: 'https://a', client_id: g, page_url: 'https://b:8443/'}")
    settings = load_master_settings(str(path), {})
    assert settings.oidc.redirect_uri == "https://b:8443/login/callback"
    with pytest.raises(ConfigError, match=r"config\.yaml:1: oidc\.page_url needs server\.token_addr"):
        settings.listens()


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ("issuer: 'http://login.example.com'", "oidc.issuer: expected the issuer's URL, such as https://login.example"),
        ("issuer: 'http://127.0.0.1.example.com'", "oidc.issuer: expected the issuer's URL"),
        ("issuer: 'https://a@b'", "oidc.issuer: expected the issuer's URL"),
        ("issuer: 'https://a/?b'", "oidc.issuer: expected the issuer's URL"),
        ("issuer: 'https://a:x'", "oidc.issuer: expected the issuer's URL"),
        ("issuer: login.example.com", "oidc.issuer: expected the issuer's URL"),
        ("issuer: 'https://a', algorithms: [none]", "oidc.algorithms[0]: expected RS256"),
        ("issuer: 'https://a', algorithms: [HS256]", "oidc.algorithms[0]: expected RS256"),
        ("issuer: 'https://a', algorithms: [RS256, RS256]", "oidc.algorithms: RS256 is given twice"),
        ("issuer: 'https://a', algorithms: []", "oidc.algorithms"),
        ("issuer: 'https://a', user_prefix: ''", "oidc.user_prefix"),
        ("issuer: 'https://a', clock_skew: 1h", "oidc.clock_skew: expected at most 300000"),
        ("issuer: 'https://a', key_cache: 1m", '"key_cache" is shorter than "key_refresh"'),
        ("issuer: 'https://a', page_url: 'http://localhost'", "oidc.page_url: expected the page's URL"),
        ("issuer: 'https://a', page_url: 'https://b/gosched'", "oidc.page_url: expected the page's URL without a path"),
        ("issuer: 'https://a', page_url: 'https://b?c'", "oidc.page_url: expected the page's URL"),
        ("issuer: 'https://a', page_url: 'https://b', page_scopes: ['a b']", "oidc.page_scopes[0]: expected one scope"),
        ("issuer: 'https://a', page_url: 'https://b', page_scopes: [a, a]", "oidc.page_scopes: a is given twice"),
        ("issuer: 'https://a', page_scopes: [a]", '"page_scopes" is for logins at the page: set "page_url"'),
        ("issuer: 'https://a', client_secret_file: f", '"client_secret_file" is for logins at the page'),
        ("issuer: 'https://a', audiense: x", 'oidc.audiense: unknown key (did you mean "audience"?)'),
    ],
)
def test_a_mistake_is_one_line_with_its_place(tmp_path, keys, words):
    with pytest.raises(ConfigError) as raised:
        _load(tmp_path, f"{keys}, client_id: g")
    assert words in str(raised.value)
    assert "\n" not in str(raised.value)
