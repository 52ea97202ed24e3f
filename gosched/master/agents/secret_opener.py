"""What is sent beside an order: the values of the task's secrets, opened for this one message.

Invariant: values leave a master only for an agent that shows its certificate, or, without TLS, within this machine.
"""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass

from gosched.core.records.allocation import Allocation
from gosched.core.records.secret import secret_key
from gosched.core.spec.secret_use import secret_names
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.secret_keys import NOT_CONFIGURED, SecretKeys
from gosched.wire.secret_seal import CannotOpen, unseal
from gosched.wire.v1 import worker_pb2

MAX_BYTES = 1 << 20  # of all secrets of one task
NEEDS_TLS = "its secrets would cross the network in plain text: masters and agents need TLS for them"


class NotYet(Exception):
    """The values cannot be had at this moment; the next heartbeat asks again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SecretOpener:
    """Opens the secrets of tasks."""

    keys: SecretKeys
    #: Whether masters and agents show each other certificates.
    tls: bool

    def of(self, state: ClusterState, allocation: Allocation, *, by_way_of: str = "") -> worker_pb2.TaskSecrets | None:
        """Return the message; None: the task has no secrets. `by_way_of`: the address of the master or the agent that
        the message goes to first, where that is not the node's own. Raises NotYet."""
        job = state.jobs[allocation.job_id]
        group = next(g for g in job.spec.groups if g.name == state.tasks[allocation.task_id].group)
        names = secret_names(group.secrets, group.isolation.registry)
        if not names:
            return None
        answer = worker_pb2.TaskSecrets(allocation_id=allocation.id)
        node = state.nodes.get(allocation.node_id)
        address = node.address.rpartition(":")[0] if node is not None else ""
        if not self.tls and not all(is_loopback(host) for host in (address, by_way_of or address)):
            answer.problem = NEEDS_TLS
            return answer
        if self.keys.is_awaited:
            raise NotYet
        try:
            values = [(name, self._value(state, job.spec.tenant, name)) for name in names]
        except CannotOpen as error:
            answer.problem = str(error)
            return answer
        if sum(len(value) for _, value in values) > MAX_BYTES:
            answer.problem = f"its secrets take more than {MAX_BYTES} bytes together"
            return answer
        for name, value in values:
            answer.values.add(name=name, value=value)
        return answer

    def _value(self, state: ClusterState, tenant: str, name: str) -> bytes:
        """Return the value. Raises CannotOpen."""
        key = secret_key(tenant, name)
        secret = state.secrets.get(key)
        if secret is None:
            raise CannotOpen(f"there is no secret {key} any more: set it again, and submit the job again")
        if self.keys.keyring is None:
            raise CannotOpen(f"secret {key} cannot be opened: {NOT_CONFIGURED}")
        return unseal(secret, self.keys.keyring, (state.cluster_id, *state.lineage))


def is_loopback(host: str) -> bool:
    """Return whether what is sent to this host stays in this machine."""
    bare = host.strip("[]")
    if bare == "localhost":
        return True
    try:
        return ipaddress.ip_address(bare).is_loopback
    except ValueError:
        return False
