"""Answers of a ResourceManager as records."""

from __future__ import annotations

from gosched.integrations.yarn.fields import Fields
from gosched.integrations.yarn.records import (
    ClusterInfo,
    ClusterMetrics,
    NewApplication,
    YarnApplication,
    YarnNode,
    YarnQueue,
    YarnScheduler,
)

#: Of queues; far more than anybody has, and no answer makes us run out of stack.
_MAX_DEPTH = 64


def read_info(answer: Fields) -> ClusterInfo:
    info = _part(answer, "clusterInfo")
    return ClusterInfo(
        id=info.count("id"),
        state=info.needed("state"),
        ha_state=info.text("haState"),
        version=info.text("resourceManagerVersion"),
        started_ms=info.count("startedOn"),
    )


def read_metrics(answer: Fields) -> ClusterMetrics:
    metrics = _part(answer, "clusterMetrics")
    return ClusterMetrics(
        apps_submitted=metrics.count("appsSubmitted"),
        apps_pending=metrics.count("appsPending"),
        apps_running=metrics.count("appsRunning"),
        apps_completed=metrics.count("appsCompleted"),
        apps_failed=metrics.count("appsFailed"),
        apps_killed=metrics.count("appsKilled"),
        total_memory_mib=metrics.count("totalMB"),
        available_memory_mib=metrics.count("availableMB"),
        allocated_memory_mib=metrics.count("allocatedMB"),
        total_vcores=metrics.count("totalVirtualCores"),
        available_vcores=metrics.count("availableVirtualCores"),
        allocated_vcores=metrics.count("allocatedVirtualCores"),
        containers=metrics.count("containersAllocated"),
        active_nodes=metrics.count("activeNodes"),
        lost_nodes=metrics.count("lostNodes"),
        unhealthy_nodes=metrics.count("unhealthyNodes"),
        decommissioned_nodes=metrics.count("decommissionedNodes"),
    )


def read_nodes(answer: Fields) -> tuple[YarnNode, ...]:
    nodes = answer.child("nodes")
    return tuple([_node(node) for node in nodes.children("node")]) if nodes is not None else ()


def read_scheduler(answer: Fields) -> YarnScheduler:
    info = _part(_part(answer, "scheduler"), "schedulerInfo")
    kind = info.needed("type")
    root = info.child("rootQueue") or info  # of a FairScheduler; the others are the root themselves
    return YarnScheduler(type=kind, root=_queue(root, "", 0))


def read_apps(answer: Fields) -> tuple[YarnApplication, ...]:
    apps = answer.child("apps")
    return tuple([_application(app) for app in apps.children("app")]) if apps is not None else ()


def read_app(answer: Fields) -> YarnApplication:
    return _application(_part(answer, "app"))


def read_new_application(answer: Fields) -> NewApplication:
    most = _part(answer, "maximum-resource-capability")
    return NewApplication(
        id=answer.needed("application-id"), max_memory_mib=most.count("memory"), max_vcores=most.count("vCores")
    )


def read_state(answer: Fields) -> str:
    return answer.needed("state")


def _part(answer: Fields, key: str) -> Fields:
    return answer.child(key) or Fields({}, key)  # what it needs is said to be missing


def _node(node: Fields) -> YarnNode:
    return YarnNode(
        id=node.needed("id"),
        state=node.needed("state"),
        host=node.text("nodeHostName"),
        http_address=node.text("nodeHTTPAddress"),
        rack=node.text("rack"),
        labels=node.words("nodeLabels"),
        containers=node.count("numContainers"),
        used_memory_mib=node.count("usedMemoryMB"),
        available_memory_mib=node.count("availMemoryMB"),
        used_vcores=node.count("usedVirtualCores"),
        available_vcores=node.count("availableVirtualCores"),
        version=node.text("version"),
        health_report=node.text("healthReport"),
        heard_ms=node.count("lastHealthUpdate"),
    )


def _queue(queue: Fields, parent: str, depth: int) -> YarnQueue:
    name = queue.text("queueName") or "root"
    # A FairScheduler's name is the whole path.
    path = queue.text("queuePath") or (name if not parent or name.startswith(f"{parent}.") else f"{parent}.{name}")
    below = queue.child("queues") or queue.child("childQueues")
    children = below.children("queue") if below is not None and depth < _MAX_DEPTH else []
    steady = queue.child("steadyFairResources")
    used = queue.child("resourcesUsed") or queue.child("usedResources")
    is_root = not parent
    return YarnQueue(
        path=path,
        state=queue.text("state") or queue.text("qstate"),
        capacity_pct=queue.real("capacity"),
        max_capacity_pct=queue.real("maxCapacity"),
        absolute_capacity_pct=queue.real("capacity" if is_root else "absoluteCapacity"),
        absolute_max_capacity_pct=queue.real("maxCapacity" if is_root else "absoluteMaxCapacity"),
        absolute_used_pct=queue.real("usedCapacity" if is_root else "absoluteUsedCapacity"),
        steady_memory_mib=steady.count("memory") if steady is not None else None,
        steady_vcores=steady.count("vCores") if steady is not None else None,
        used_memory_mib=used.count("memory") if used is not None else 0,
        used_vcores=used.count("vCores") if used is not None else 0,
        applications=queue.count("numApplications") or queue.count("numPendingApps") + queue.count("numActiveApps"),
        children=tuple([_queue(child, path, depth + 1) for child in children]),
    )


def _application(app: Fields) -> YarnApplication:
    return YarnApplication(
        id=app.needed("id"),
        name=app.text("name"),
        type=app.text("applicationType"),
        user=app.text("user"),
        queue=app.text("queue"),
        state=app.needed("state"),
        final_status=app.text("finalStatus", "UNDEFINED"),
        progress_pct=app.real("progress") or 0.0,
        priority=app.count("priority"),
        tags=tuple([tag for tag in app.text("applicationTags").split(",") if tag]),
        diagnostics=app.text("diagnostics"),
        tracking_url=app.text("trackingUrl"),
        log_url=app.text("amContainerLogs"),
        started_ms=app.count("startedTime"),
        launched_ms=app.count("launchTime"),
        finished_ms=app.count("finishedTime"),
        memory_mib=app.count("allocatedMB"),
        vcores=app.count("allocatedVCores"),
        containers=app.count("runningContainers"),
        memory_mib_seconds=app.count("memorySeconds"),
        vcore_seconds=app.count("vcoreSeconds"),
    )
