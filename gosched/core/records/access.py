"""Who may do what, as it is replicated: bindings of roles to users and groups, and tokens."""

from __future__ import annotations

from dataclasses import dataclass

from gosched.core.primitives import Named
from gosched.core.resources import AmountMap

#: Stands for the account named as the user, in a binding's `accounts`.
OWN_ACCOUNT = "$user"
#: Stands for every user in a binding's `users`.
ANY_USER = "*"
#: Begins the names of users and groups that are accounts and groups of a master's machine.
LOCAL = "unix:"


class AccessRole(Named):
    """What a binding or a token grants; `core/access.py` has the table."""

    UNSPECIFIED = 0
    VIEWER = 1
    SUBMITTER = 2
    TENANT_ADMIN = 3
    OPERATOR = 4
    ADMIN = 5

    @property
    def word(self) -> str:
        """Return the role as people write it: `tenant-admin`."""
        return self.name.lower().replace("_", "-")


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """A role for some users and groups, within some tenants and queues."""

    #: By which people tell bindings apart.
    name: str
    role: AccessRole
    #: Names of users; `*`: all.
    users: tuple[str, ...] = ()
    #: Names of groups, as certificates or issuers of tokens name them.
    groups: tuple[str, ...] = ()
    #: The tenants it holds for; empty: all.
    tenants: tuple[str, ...] = ()
    #: Paths of the queues it holds for, those below them included; empty: all.
    queues: tuple[str, ...] = ()
    #: System accounts that tasks of jobs which it lets submit may run as, beside the agents' default; `$user`: the one
    #: that is named as the user.
    accounts: tuple[str, ...] = ()
    #: The most that a tenant-admin may set as the quota of one of `tenants`; empty: it sets no quota.
    ceiling: AmountMap = ()

    @property
    def role_word(self) -> str:
        return self.role.word


@dataclass(frozen=True, slots=True, kw_only=True)
class Token:
    """A secret that stands for a user, with no more rights than its own role and scope leave. Never the secret."""

    #: In the secret, too, so that it is found.
    id: str
    #: What it is for, in the words of its maker.
    name: str
    #: On whose behalf it calls.
    user: str
    #: The groups that the user had when the token was made.
    groups: tuple[str, ...] = ()
    #: The most that it grants; what the user itself may not, it may not either.
    role: AccessRole
    #: The tenants it holds for; empty: all of the user's.
    tenants: tuple[str, ...] = ()
    #: Paths of the queues it holds for; empty: all of the user's.
    queues: tuple[str, ...] = ()
    #: SHA-256 of the secret, in hex.
    digest: str
    #: When it was made, and when it ends, in ms since 1970.
    created_at_ms: int
    expires_at_ms: int
    #: Serial number of the certificate with which it was made: once that is revoked, it is worth nothing. Empty: it was
    #: made otherwise.
    certificate: str = ""

    @property
    def role_word(self) -> str:
        return self.role.word
