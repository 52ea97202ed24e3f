"""How roles and users are read from certificates that were not made for gosched: a company's, cert-manager's, SPIFFE's.

A certificate that names its role in gosched's own form has that role (`roles.py`). Else the rules of the settings are
tried: of each of its alternative names, the first rule that matches counts. The common name counts where no rule
matches an alternative name, for every certificate has one. What no rule matches is a client's, named by a field of the
certificate, or nobody's.

Invariant: a certificate has one role and one name. Where two of its names give different ones, it has none; and a `*`
of a rule stands for a name in one piece, never for nothing and never for `*`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gosched.core.limits import MAX_NAME_LENGTH
from gosched.wire.roles import BadCertificate, CertificateHolder, Role, identity_of

if TYPE_CHECKING:
    from gosched.config.role_rules_model import NameKind, UserField
    from gosched.config.settings import Tls

_NAME = re.compile(r"[^\s/%*]+")
_LABEL = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")


@dataclass(frozen=True, slots=True, kw_only=True)
class CertificateNames:
    """The names in a certificate."""

    uris: tuple[str, ...] = ()
    dns: tuple[str, ...] = ()
    emails: tuple[str, ...] = ()
    #: Of the subject: common names, organizations, organizational units.
    common: tuple[str, ...] = ()
    organizations: tuple[str, ...] = ()
    units: tuple[str, ...] = ()

    def of(self, kind: NameKind) -> tuple[str, ...]:
        return {"uri": self.uris, "dns": self.dns, "email": self.emails, "cn": self.common}[kind]


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleRule:
    """Names that begin and end so are of this role; what is between is the holder's own."""

    kind: NameKind
    before: str
    after: str
    role: Role

    def name_in(self, text: str) -> str | None:
        """Return the name of the holder in a name of a certificate; None: the rule does not match."""
        if self.kind == "dns":
            text = text.lower()
        if len(text) <= len(self.before) + len(self.after):
            return None
        if not (text.startswith(self.before) and text.endswith(self.after)):
            return None
        name = text[len(self.before) : len(text) - len(self.after)]
        form = _LABEL if self.kind == "dns" else _NAME
        return name if form.fullmatch(name) and name.isprintable() and len(name) <= MAX_NAME_LENGTH else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleReader:
    """What certificates say, by the settings of a program."""

    rules: tuple[RoleRule, ...] = ()
    #: Whether a certificate without a role is a client's.
    takes_unnamed: bool = True
    #: The field with the name of a client whose certificate has no role.
    user: UserField = "cn"
    #: Whether the groups of a client are its organizational units, and not its organizations.
    groups_are_units: bool = False

    def holder(self, names: CertificateNames) -> CertificateHolder:
        """Return what a certificate says. Raises BadCertificate."""
        built_in = identity_of(names.uris, names.dns)
        if built_in.name:
            return built_in
        found = self._matches((("uri", names.uris), ("dns", names.dns), ("email", names.emails)))
        found = found or self._matches((("cn", names.common),))
        if len(found) > 1:
            said = ", ".join(f"{role.value} {name}" for role, name in found)
            raise BadCertificate(f"tls.roles read {len(found)} names from one certificate ({said}): it may have one")
        if found:
            role, name = found[0]
            return CertificateHolder(role=role, name=name)
        if not self.takes_unnamed:
            raise BadCertificate("the certificate has no role, by its own names and by tls.roles: get one that has")
        return CertificateHolder()

    def user_name(self, names: CertificateNames) -> str:
        """Return the name of a client whose certificate has no role; empty: it has none, and is an address. Raises
        BadCertificate."""
        found = names.of(self.user)
        if self.user == "cn":
            return next(iter(found), "")
        if len(found) != 1:
            raise BadCertificate(
                f"the certificate has {len(found)} names of the kind {self.user}, by which tls.user names clients:"
                " it must have one"
            )
        return found[0]

    def groups(self, names: CertificateNames) -> tuple[str, ...]:
        return tuple(sorted(set(names.units if self.groups_are_units else names.organizations)))

    def _matches(self, kinds: Iterable[tuple[NameKind, tuple[str, ...]]]) -> list[tuple[Role, str]]:
        found: dict[tuple[Role, str], None] = {}
        for kind, texts in kinds:
            for text in texts:
                for rule in self.rules:
                    if rule.kind == kind and (name := rule.name_in(text)) is not None:
                        found[rule.role, name] = None
                        break
        return list(found)


def reader_of(tls: Tls | None) -> RoleReader:
    """Return what reads certificates as the settings say."""
    if tls is None:
        return BUILT_IN
    from gosched.config.role_rules_model import pattern_of  # slow to import, and not needed by clients

    rules = []
    for one in tls.roles:
        kind, before, after = pattern_of(one.match)
        rules.append(RoleRule(kind=kind, before=before, after=after, role=Role(one.role)))
    return RoleReader(
        rules=tuple(rules),
        takes_unnamed=tls.unnamed == "client",
        user=tls.user,
        groups_are_units=tls.groups == "ou",
    )


#: What certificates say where the settings say nothing of it.
BUILT_IN = RoleReader()
