"""When a rolling upgrade may go on: a table of clusters and verdicts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gosched.api.status import MasterHealth, MasterStatus, Status
from gosched.client.upgrade import BadVersion, upgrade_checks
from gosched.core.resources import ZERO

IDS = ("m1", "m2", "m3")


def master(id: str, **more: object) -> MasterStatus:
    given = {"id": id, "address": "", "role": "follower", "healthy": True, "grpc_address": "h:1", "http_address": ""}
    return MasterStatus(**{"clock_offset_ms": 0, "newest_feature_level": 5, **given, **more})  # type: ignore[arg-type]


def status(*masters: MasterStatus, level: int = 5, **more: object) -> Status:
    empty = {"epoch": 1, "revision": 9, "nodes": 0, "nodes_ready": 0, "jobs": 0, "pending": 0, "running": 0}
    known = {"leader": "m1", "total": ZERO, "used": ZERO, "queues": (), "digest": "", "version": "0.1.0"}
    masters = masters or tuple(master(m) for m in IDS)
    return Status(masters=masters, feature_level=level, **{**empty, **known, **more})  # type: ignore[arg-type]


def health(id: str, release: str = "0.1.0", **more: object) -> MasterHealth:
    figures = {"applied_index": 100, "commit_index": 100, "leader": "m1", "disk_free_bytes": 1 << 30}
    return MasterHealth(id=id, release=release, **{**figures, "disk_needed_bytes": 1 << 20, **more})  # type: ignore[arg-type]


ALL = {m: health(m) for m in IDS}


def problems(status: Status, healths: dict[str, MasterHealth | str], target: str | None = None) -> dict[str, str]:
    return {check.name: check.detail for check in upgrade_checks(status, healths, target) if not check.ok}


@pytest.mark.parametrize("target", [None, "0.1.3", "0.2.0", "1.0.0", "0.2.0rc1"])
def test_a_healthy_cluster_may_be_upgraded_by_one_release(target: str | None) -> None:
    assert problems(status(), {**ALL}, target) == {}


def test_an_upgrade_that_skips_a_release_is_refused_with_the_step_to_take() -> None:
    (said,) = problems(status(), {**ALL}, "0.3.0").values()
    assert said == "0.1.0 to 0.3.0 skips a release: upgrade all masters to 0.2 first, and finish that"
    assert "releases" in problems(status(), {**ALL}, "1.1.0")
    apart = {**ALL, "m3": health("m3", "0.3.1")}
    assert "more than one release apart; bring the older ones to 0.2 first" in problems(status(), apart)["releases"]


def test_a_master_that_is_away_or_silent_or_behind_is_waited_for() -> None:
    away = status(master("m1"), master("m2", healthy=False), master("m3"))
    found = problems(away, {**ALL, "m2": "h:1 does not answer"})
    assert "m2 does not answer; m2: h:1 does not answer" in found["masters"]
    behind = {**ALL, "m2": health("m2", applied_index=100, commit_index=5000), "m1": health("m1", applied_index=5000)}
    assert "m2 has 4900 entries to apply" in problems(status(), behind)["log"]
    assert "follow different leaders" in problems(status(), {**ALL, "m2": health("m2", leader="m2")})["masters"]
    assert "m2 follows no leader" in problems(status(), {**ALL, "m2": health("m2", leader="")})["masters"]


def test_clocks_that_are_apart_and_disks_without_room_stop_an_upgrade() -> None:
    apart = status(clock_problem="the clocks of m1 and m2 are 400 s apart: set them (for example with NTP)")
    assert "400 s apart" in problems(apart, {**ALL})["clocks"]
    full = {**ALL, "m3": health("m3", disk_free_bytes=1 << 20, disk_needed_bytes=5 << 20)}
    assert "m3 has 1 MiB free and may need 5: free disk space" in problems(status(), full)["disk"]


def test_the_last_upgrade_is_finished_before_the_next_one_begins() -> None:
    raised_not = status(level=4)
    assert "cluster finalize-upgrade" in problems(raised_not, {**ALL}, "0.2.0")["features"]
    assert "cluster finalize-upgrade" in problems(raised_not, {**ALL})["features"]
    assert problems(raised_not, {**ALL}, "0.1.0") == {}, "one that is under way goes on"


def test_masters_of_the_release_before_say_less_and_do_not_stop_an_upgrade() -> None:
    old = status(master("m1"), master("m2", newest_feature_level=4), master("m3"), level=4)
    healths: dict[str, MasterHealth | str] = {**ALL, "m2": MasterHealth(id="m2")}
    assert problems(old, healths) == {}
    assert problems(old, healths, "0.1.0") == {}


def test_one_may_go_back_until_the_feature_level_is_raised() -> None:
    new = {m: replace(health(m), release="0.2.0") for m in IDS}
    assert problems(status(level=4), {**new}, "0.1.0") == {}
    assert "the only way back is a backup" in problems(status(level=5), {**new}, "0.1.0")["features"]


def test_what_is_no_version_is_refused() -> None:
    with pytest.raises(BadVersion, match="write one such as"):
        upgrade_checks(status(), {**ALL}, "newest")
