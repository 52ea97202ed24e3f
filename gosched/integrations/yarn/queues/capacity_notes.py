"""Settings of a CapacityScheduler that make no part of a queue here, and what to do instead.

A setting whose value asks for what is done here anyway needs no note: those values stand before the advice.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

PREFIX = "yarn.scheduler.capacity."
UNKNOWN = "not known to this import, and left out: see what it does"

_Advice = tuple[Collection[str], str]

_LABELS = "no node labels with shares of their own: label the nodes, and give jobs a node_selector; or taint them"
_LIFETIME = "give the jobs a timeout: it ends them"
_NO_MASTER = "not needed: jobs have no ApplicationMaster that takes a part of the queue"
_BY_USER = "no limit by user within a queue: order: fair shares among tenants, quotas bound a tenant in the cluster"
_ACL = (
    "not read: bind users to the role submitter of tenants (goschedctl access), and name those in the queue's tenants"
)
_MAPPING = "jobs name their queue themselves (queue:)"
_MOST_PER_CONTAINER = "no bound by queue: a task that fits on no node is refused, and quotas bound a tenant"
_LOCALITY = "no delay for locality: tasks do not wait for a node; the plugin hadoop prefers nodes with blocks"
_CREATED = "queues are not made by themselves: write them, or use one queue with order: fair among tenants"
_TUNING = "not needed: it tunes YARN's own scheduler"
_RESERVED = "reserved starts are made by themselves; windows by goschedctl reservation create"

#: After the name of a queue; what follows a dot belongs to it.
OF_QUEUE: Mapping[str, _Advice] = {
    "state": (("RUNNING",), "left out: a queue here takes jobs always; leave it out of the file, or name tenants"),
    "priority": (("0",), "queues have no priorities: give its jobs a priority, or the queue a guarantee"),
    "disable_preemption": (("false",), "not of queues: give its jobs preemption: {preemptible: false}"),
    "intra-queue-preemption": (
        (),
        "within a queue, jobs of higher priority evict: preemption of the queue says how far",
    ),
    "maximum-applications": ((), "waiting jobs are not bounded by queue; max_running_jobs bounds those that run"),
    "maximum-am-resource-percent": ((), _NO_MASTER),
    "user-limit-factor": (("1", "1.0"), _BY_USER),
    "minimum-user-limit-percent": (("100",), _BY_USER),
    "user-settings": ((), _BY_USER),
    "acl_submit_applications": (("*",), _ACL),
    "acl_administer_queue": (("*",), "not read: roles say who may change jobs (goschedctl access)"),
    "acl_list_reservations": (("*",), _RESERVED),
    "acl_submit_reservations": (("*",), _RESERVED),
    "acl_administer_reservations": (("*",), _RESERVED),
    "acl_application_max_priority": ((), "not read: any job may have any priority"),
    "reservable": (("false",), _RESERVED),
    "default-application-priority": (("0",), "give the jobs a priority"),
    "maximum-application-lifetime": (("-1", "0"), _LIFETIME),
    "default-application-lifetime": (("-1", "0"), _LIFETIME),
    "maximum-allocation-mb": ((), _MOST_PER_CONTAINER),
    "maximum-allocation-vcores": ((), _MOST_PER_CONTAINER),
    "maximum-allocation": ((), _MOST_PER_CONTAINER),
    "accessible-node-labels": (("*", ""), _LABELS),
    "default-node-label-expression": (("",), _LABELS),
    "auto-create-child-queue": ((), _CREATED),
    "auto-queue-creation-v2": ((), _CREATED),
    "leaf-queue-template": ((), _CREATED),
    "allow-zero-capacity-sum": ((), ""),
    "multi-node-sorting": ((), _TUNING),
}

#: Of the scheduler as a whole.
OF_SCHEDULER: Mapping[str, _Advice] = {
    "maximum-applications": ((), "waiting jobs are bounded in the whole cluster only (docs/reference/limits.md)"),
    "maximum-am-resource-percent": ((), _NO_MASTER),
    "max-parallel-apps": (("2147483647",), "write max_running_jobs at each queue"),
    "user": ((), _BY_USER),
    "resource-calculator": (
        ("org.apache.hadoop.yarn.util.resource.DominantResourceCalculator",),
        "not kept: here all resources count, as with the DominantResourceCalculator",
    ),
    "node-locality-delay": (("-1",), _LOCALITY),
    "rack-locality-additional-delay": (("-1",), _LOCALITY),
    "rack-locality-full-reset": ((), _LOCALITY),
    "per-node-heartbeat": ((), _TUNING),
    "schedule-asynchronously": ((), _TUNING),
    "queue-mappings": (("",), _MAPPING),
    "queue-mappings-override": (("false", ""), _MAPPING),
    "mapping-rule-format": ((), _MAPPING),
    "mapping-rule-json": ((), _MAPPING),
    "mapping-rule-json-file": ((), _MAPPING),
    "workflow-priority-mappings": (("",), "give the jobs a priority"),
    "workflow-priority-mappings-override": (("false", ""), "give the jobs a priority"),
    "application.fail-fast": ((), _TUNING),
    "legacy-queue-mode": ((), _TUNING),
    "skip-allocate-on-nodes-with-reserved-containers": ((), _TUNING),
}


def advice_for(key: str, value: str, queues: Collection[str]) -> str:
    """Return what to do about a property, without the scheduler's prefix; empty: nothing. `queues`: those of the tree,
    from `root` on."""
    parts = key.split(".")
    for end in range(len(parts), 0, -1):
        if ".".join(parts[:end]) in queues:
            return _found(".".join(parts[end:]), value, OF_QUEUE)
    return _found(key, value, OF_SCHEDULER)


def _found(setting: str, value: str, known: Mapping[str, _Advice]) -> str:
    name = next((name for name in known if setting == name or setting.startswith(f"{name}.")), None)
    if name is None:
        return UNKNOWN
    harmless, advice = known[name]
    return "" if value.strip() in harmless else advice
