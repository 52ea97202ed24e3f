"""Settings of a FairScheduler that make no part of a queue here, and what to do instead; empty: nothing."""

from __future__ import annotations

from collections.abc import Mapping

UNKNOWN = "not known to this import, and left out: see what it does"

_NO_MASTER = "not needed: jobs have no ApplicationMaster that takes a part of the queue"
_PREEMPTION = "no time to wait: a guarantee is taken back at once, unless the queue's preemption is never"
_ACL = "not read: bind users to roles (goschedctl access), and name tenants in the queue's tenants"
_BY_USER = "no bound by user: quotas have max_running_jobs for a tenant"

OF_QUEUE: Mapping[str, str] = {
    "weight": "",
    "minResources": "",
    "maxResources": "",
    "maxRunningApps": "",
    "schedulingPolicy": "",
    "maxAMShare": _NO_MASTER,
    "maxChildResources": "left out: it is of queues that are made by themselves",
    "maxContainerAllocation": "no bound by queue: a task that fits on no node is refused, and quotas bound a tenant",
    "aclSubmitApps": _ACL,
    "aclAdministerApps": _ACL,
    "minSharePreemptionTimeout": _PREEMPTION,
    "fairSharePreemptionTimeout": _PREEMPTION,
    "fairSharePreemptionThreshold": _PREEMPTION,
    "allowPreemptionFrom": "not of queues: give its jobs preemption: {preemptible: false}",
    "reservation": "reserved starts are made by themselves; windows by goschedctl reservation create",
}

DEFAULTS: Mapping[str, str] = {
    "queueMaxAppsDefault": "",
    "queueMaxResourcesDefault": "",
    "defaultQueueSchedulingPolicy": "",
    "defaultQueueSchedulingMode": "write order: at each queue",
    "user": _BY_USER,
    "userMaxAppsDefault": _BY_USER,
    "queueMaxAMShareDefault": _NO_MASTER,
    "defaultMinSharePreemptionTimeout": _PREEMPTION,
    "defaultFairSharePreemptionTimeout": _PREEMPTION,
    "defaultFairSharePreemptionThreshold": _PREEMPTION,
    "queuePlacementPolicy": "jobs name their queue themselves (queue:)",
}
