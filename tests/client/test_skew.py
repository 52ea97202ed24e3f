"""Which releases go together: at most one release apart, and none newer than the masters."""

from __future__ import annotations

import pytest

from gosched.client.skew import warnings


@pytest.mark.parametrize(
    ("client", "masters", "agents"),
    [
        ("0.5.0", ["0.5.0", "0.5.3"], ["0.5.1", "0.4.0"]),
        ("0.4.9", ["0.5.0", "0.5.0"], []),
        ("0.4.0", ["0.5.0", "0.4.2"], ["0.4.0"]),  # in the middle of an upgrade
        ("0.5.0.dev3", ["0.5.0"], ["", "0.5.0rc1"]),
        ("0.9.0", ["", "unheard of"], ["0.1.0"]),  # nothing is known of the masters
        ("10.4.0", ["10.5.0"], []),
        ("0.9.0", ["0.9.0", "1.0.0"], []),  # to the next major release
    ],
)
def test_releases_that_go_together_bring_no_warning(client, masters, agents):
    assert warnings(client, _named("m", masters), _named("n", agents)) == []


@pytest.mark.parametrize(
    ("client", "masters", "agents", "said"),
    [
        ("0.6.0", ["0.5.9"], [], "goschedctl 0.6.0 is newer than master m0 (0.5.9): use goschedctl 0.5.9,"),
        ("0.6.0", ["0.6.0", "0.5.9"], [], "goschedctl 0.6.0 is newer than master m1 (0.5.9)"),
        ("0.3.0", ["0.5.0"], [], "goschedctl 0.3.0 is more than one release behind master m0 (0.5.0): upgrade"),
        ("0.9.0", ["1.1.0"], [], "goschedctl 0.9.0 is more than one release behind master m0"),
        ("0.3.0", ["0.3.0", "0.5.0"], [], "master m1 (0.5.0) is more than one release ahead of m0 (0.3.0)"),
        ("0.5.0", ["0.5.0"], ["0.6.0"], "agent n0 is newer than master m0 (0.5.0): upgrade masters before agents"),
        ("0.5.0", ["0.5.0"], ["0.3.0", "0.2.0"], "agent n0 and 1 more are more than one release behind"),
        ("0.5.0", ["0.10.0"], [], "goschedctl 0.5.0 is more than one release behind"),
    ],
)
def test_releases_that_do_not_go_together_are_named_with_what_to_do(client, masters, agents, said):
    assert any(line.startswith(said) for line in warnings(client, _named("m", masters), _named("n", agents)))


def _named(letter, versions):
    return {f"{letter}{i}": version for i, version in enumerate(versions)}
