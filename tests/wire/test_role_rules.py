"""Roles and users of certificates that were not made for gosched, by the rules of the settings."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from gosched.config.settings import Tls
from gosched.wire.role_rules import BUILT_IN, CertificateNames, RoleReader, reader_of
from gosched.wire.roles import BadCertificate, CertificateHolder, Role

CORP = (
    {"match": "spiffe://corp/gosched/prod/master/*", "role": "master"},
    {"match": "spiffe://corp/gosched/prod/agent/*", "role": "agent"},
    {"match": "dns:gosched-agent-*.corp.example", "role": "agent"},
    {"match": "email:*@corp.example", "role": "client"},
    {"match": "cn:gosched-master-*", "role": "master"},
    {"match": "cn:*", "role": "client"},
)


def reader(*rules: Any, **more: Any) -> RoleReader:
    return reader_of(Tls.model_validate({"cert": "c", "key": "k", "ca": "a", "roles": rules, **more}))


def names(**found: tuple[str, ...]) -> CertificateNames:
    return CertificateNames(**found)


@pytest.mark.parametrize(
    ("found", "role", "name"),
    [
        (names(uris=("spiffe://corp/gosched/prod/master/m-1",)), Role.MASTER, "m-1"),
        (names(uris=("spiffe://corp/gosched/prod/agent/node-17.rack",)), Role.AGENT, "node-17.rack"),
        (names(dns=("x.corp.example", "GoSched-Agent-N1.corp.example")), Role.AGENT, "n1"),
        (names(emails=("ann@corp.example",), common=("Ann A",)), Role.CLIENT, "ann"),
        (names(common=("gosched-master-m2",)), Role.MASTER, "m2"),
        (names(common=("bob",)), Role.CLIENT, "bob"),
        # A certificate's own form goes before all rules, and its common name after them.
        (names(uris=("gosched:///agent/n1",), common=("gosched-master-m1",)), Role.AGENT, "n1"),
        (names(uris=("spiffe://corp/gosched/prod/agent/n1",), common=("gosched-master-m1",)), Role.AGENT, "n1"),
        # Two names that say the same are one.
        (
            names(uris=("spiffe://corp/gosched/prod/agent/n1",), dns=("gosched-agent-n1.corp.example",)),
            Role.AGENT,
            "n1",
        ),
    ],
    ids=str,
)
def test_each_form_has_its_role_and_its_name(found: CertificateNames, role: Role, name: str) -> None:
    holder = reader(*CORP).holder(found)
    assert (holder.role, holder.name, holder.in_dns) == (role, name, False)


@pytest.mark.parametrize(
    "uri",
    [
        "spiffe://corp/gosched/prod/master/",
        "spiffe://corp/gosched/prod/master/a/b",
        "spiffe://corp/gosched/prod/master/*",
        "spiffe://corp/gosched/prod/master/a%2Fb",
        "spiffe://corp/gosched/prod/master/a b",
        "spiffe://corp/gosched/prod/master/a\nb",
        f"spiffe://corp/gosched/prod/master/{'x' * 300}",
        "spiffe://corp/gosched/test/master/m1",  # of another cluster
        "spiffe://corp.evil/gosched/prod/master/m1",
        "SPIFFE://corp/gosched/prod/master/m1",
        "x-spiffe://corp/gosched/prod/master/m1",
    ],
)
def test_a_star_is_a_name_in_one_piece_and_what_does_not_match_is_no_master(uri: str) -> None:
    rules = CORP[:3]
    assert reader(*rules).holder(names(uris=(uri,))) == CertificateHolder()
    with pytest.raises(BadCertificate, match="the certificate has no role"):
        reader(*rules, unnamed="refused").holder(names(uris=(uri,)))


@pytest.mark.parametrize(
    "host",
    ["gosched-agent-.corp.example", "gosched-agent-a.b.corp.example", "gosched-agent-*.corp.example",
     "gosched-agent-a.corp.example.evil", "a.gosched-agent-a.corp.example"],
)  # fmt: skip
def test_a_star_of_a_host_name_is_one_label(host: str) -> None:
    assert reader(CORP[2]).holder(names(dns=(host,))) == CertificateHolder()


def test_a_certificate_whose_names_give_two_roles_or_two_names_is_refused() -> None:
    corp = reader(*CORP)
    agent, master = "spiffe://corp/gosched/prod/agent/n1", "spiffe://corp/gosched/prod/master/m1"
    for both in (
        names(uris=(agent, master)),
        names(uris=(agent, agent[:-1] + "2")),
        names(uris=(master,), emails=("ann@corp.example",)),
        names(uris=(master,), dns=("gosched-agent-n1.corp.example",)),
        names(common=("bob", "gosched-master-m1")),
    ):
        with pytest.raises(BadCertificate, match=r"tls.roles read 2 names from one certificate"):
            corp.holder(both)
    with pytest.raises(BadCertificate, match="it may name one"):
        corp.holder(names(uris=("gosched:///agent/n1", "gosched:///master/m1")))


def test_the_first_rule_that_matches_a_name_counts() -> None:
    rules = ({"match": "cn:ops-*", "role": "agent"}, {"match": "cn:*", "role": "client"})
    assert reader(*rules).holder(names(common=("ops-n1",))).role is Role.AGENT
    assert reader(*reversed(rules)).holder(names(common=("ops-n1",))).role is Role.CLIENT


def test_users_without_a_role_are_named_by_a_field_and_so_are_their_groups() -> None:
    found = names(
        common=("Ann",), emails=("ann@x",), uris=("https://x/ann",), dns=("ann.x",), organizations=("b", "a"),
        units=("dev",),
    )  # fmt: skip
    assert BUILT_IN.holder(found) == CertificateHolder()
    assert (BUILT_IN.user_name(found), BUILT_IN.groups(found)) == ("Ann", ("a", "b"))
    assert BUILT_IN.user_name(names()) == ""
    for field, name in (("email", "ann@x"), ("uri", "https://x/ann"), ("dns", "ann.x")):
        assert reader(user=field).user_name(found) == name
        for few in (names(common=("Ann",)), names(emails=("a@x", "b@x"), uris=("x:a", "x:b"), dns=("a", "b"))):
            with pytest.raises(BadCertificate, match=f"names of the kind {field}, by which tls.user names clients"):
                reader(user=field).user_name(few)
    assert reader(groups="ou").groups(found) == ("dev",)


@pytest.mark.parametrize(
    ("match", "words"),
    [
        ("master-*", "expected a URI such as spiffe://"),
        ("cn:master", r"needs one \*"),
        ("cn:*-*", r"needs one \*"),
        ("spiffe://corp/a b/*", "has spaces"),
        ("uri:*", r"the \* of a URI stands after its host"),
        ("gosched://prod/master/*", "gosched's own names need no rule"),
        ("dns:*.master.gosched.internal", "gosched's own names need no rule"),
    ],
)
def test_a_rule_that_makes_no_sense_is_refused_with_one_line(match: str, words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        reader({"match": match, "role": "agent"})


def test_without_rules_everything_is_as_before() -> None:
    assert reader() == BUILT_IN == reader_of(None)
