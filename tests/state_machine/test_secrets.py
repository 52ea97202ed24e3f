"""Secrets in the state: ciphertexts are set, replaced, sealed again and deleted; jobs name those of their tenant."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gosched.core.commands.command import LEVEL_OF
from gosched.core.commands.jobs import SubmitJob
from gosched.core.commands.secrets import DeleteSecret, ResealSecret, SetSecret
from gosched.core.features import FeatureLevel
from gosched.core.limits import (
    MAX_SEALED_LENGTH,
    MAX_SECRET_BYTES_PER_TENANT,
    MAX_SECRETS_PER_GROUP,
    MAX_SECRETS_PER_TENANT,
)
from gosched.core.outcome import Accepted, Code
from gosched.core.rules.jobs import check_job
from gosched.core.spec.isolation import Isolation
from gosched.core.spec.secret_use import SecretUse
from gosched.core.spec.task_group import Runtime
from gosched.core.state.record_bytes import content_bytes
from gosched.core.state.restore import restore
from tests.state_machine.cluster import Cluster, group, spec

SEALED = "c2VhbGVk"


def setting(name: str = "db", tenant: str = "ml", **more: object) -> SetSecret:
    given = {"sealed": SEALED, "key_id": "k1", "cluster_id": "c1", "user": "ann", **more}
    return SetSecret(tenant=tenant, name=name, **given)  # type: ignore[arg-type]


def using(*uses: SecretUse, tenant: str = "ml", **more: object):
    return spec("train", group(secrets=uses, **more), tenant=tenant)


@pytest.fixture
def c() -> Cluster:
    return Cluster()


def test_a_secret_is_set_replaced_and_deleted_and_its_version_counts_the_settings(c):
    assert c.accept(setting()).subject == "1"
    assert c.accept(setting(sealed="YW5vdGhlcg==", user="bob")).subject == "2"
    secret = c.state.secrets["ml/db"]
    assert (secret.version, secret.sealed, secret.changed_by) == (2, "YW5vdGhlcg==", "bob")
    assert secret.changed_at_ms == c.state.clock_ms
    c.accept(DeleteSecret(tenant="ml", name="db"))
    assert c.state.secrets == {}
    assert c.accept(setting()).subject == "1"


def test_an_equal_value_is_no_reason_to_say_that_nothing_changed(c):
    c.accept(setting())
    assert not c.accept(setting()).unchanged


def test_a_repeat_of_a_request_gets_the_first_answer_though_its_ciphertext_differs(c):
    first = c.do(setting(), client="a", request="1")
    again = c.do(setting(sealed="b3RoZXI="), client="a", request="1")
    assert first == again == Accepted(subject="1")
    assert c.state.secrets["ml/db"].sealed == SEALED


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (setting(name="a/b"), "secret name"),
        (setting(name=""), "secret name is empty"),
        (setting(tenant="a/b"), "tenant"),
        (setting(sealed=""), "its ciphertext has 0 characters"),
        (setting(sealed="a" * (MAX_SEALED_LENGTH + 1)), "its ciphertext has"),
        (setting(sealed="ü"), "its ciphertext"),
        (setting(key_id=""), "key id"),
        (setting(user="a\nb"), "user"),
        (setting(cluster_id="a\nb"), "cluster id"),
    ],
)
def test_a_bad_one_is_refused_and_changes_nothing(c, command, words):
    assert words in c.reject(command, Code.INVALID)


def test_what_is_not_there_is_not_deleted(c):
    assert "there is no secret 'ml/db'" in c.reject(DeleteSecret(tenant="ml", name="db"), Code.NOT_FOUND)


def test_a_tenant_has_so_many_secrets_and_no_more(c):
    for number in range(MAX_SECRETS_PER_TENANT):
        c.state.put_secret(_record(c, f"s{number}"))
    assert "has 1000 secrets" in c.reject(setting(name="more"), Code.EXHAUSTED)
    c.accept(setting(name="s1"))  # one that is there can be replaced
    c.accept(setting(name="more", tenant="other"))


def test_a_tenants_secrets_have_so_many_bytes_and_no_more(c):
    large = "a" * MAX_SEALED_LENGTH
    most = MAX_SECRET_BYTES_PER_TENANT // content_bytes(_record(c, "s00", large))
    for number in range(most):
        c.accept(setting(name=f"s{number:02}", sealed=large))
    assert "would take more than" in c.reject(setting(name="more", sealed=large), Code.EXHAUSTED)
    c.accept(setting(name="s00", sealed=large))


def test_sealing_again_replaces_the_ciphertext_and_nothing_else(c):
    c.accept(setting())
    before = c.state.secrets["ml/db"]
    c.accept(ResealSecret(tenant="ml", name="db", version=1, sealed="bmV3", key_id="k2", cluster_id="c2"))
    assert c.state.secrets["ml/db"] == replace(before, sealed="bmV3", key_id="k2", cluster_id="c2")


def test_what_was_set_or_deleted_meanwhile_is_not_overwritten_by_sealing_again(c):
    late = ResealSecret(tenant="ml", name="db", version=1, sealed="b2xk", key_id="k2", cluster_id="c1")
    assert c.accept(late).unchanged
    c.accept(setting())
    c.accept(setting(sealed="bmV3"))
    assert c.accept(late).unchanged
    assert c.state.secrets["ml/db"].sealed == "bmV3"


def test_a_job_that_names_a_secret_which_its_tenant_lacks_is_refused(c):
    c.accept(setting(tenant="other"))
    wanted = using(SecretUse(name="db", env="DB"))
    detail = c.reject(SubmitJob(job_id="j1", spec=wanted), Code.NOT_FOUND)
    assert detail == "group worker: there is no secret ml/db: set it with goschedctl secret set ml/db"
    c.accept(setting())
    c.accept(SubmitJob(job_id="j1", spec=wanted))


def test_credentials_of_a_registry_that_a_tenant_lacks_are_missed_too(c):
    isolation = Isolation(registry="secret:hub")
    wanted = using(runtime=Runtime.DOCKER, image="debian:12", isolation=isolation)
    assert "there is no secret ml/hub" in c.reject(SubmitJob(job_id="j1", spec=wanted), Code.NOT_FOUND)
    c.accept(setting(name="hub"))
    c.accept(SubmitJob(job_id="j1", spec=wanted))


@pytest.mark.parametrize(
    ("uses", "words"),
    [
        ((SecretUse(name="db"),), "name one of them"),
        ((SecretUse(name="db", env="A", file="a"),), "name one of them"),
        ((SecretUse(name="a/b", env="A"),), "secret name"),
        ((SecretUse(name="db", file="/etc/passwd"),), "no relative path"),
        ((SecretUse(name="db", file="../../x"),), "no relative path"),
        ((SecretUse(name="db", file="a//b"),), "no relative path"),
        ((SecretUse(name="db", file="a\nb"),), "no relative path"),
        ((SecretUse(name="db", file="a" * 256),), "no relative path"),
        ((SecretUse(name="db", env="A=B"),), "cannot be the name"),
        ((SecretUse(name="db", env="GOSCHED_X"),), "are set by gosched"),
        ((SecretUse(name="db", env="HOME"), SecretUse(name="b", env="HOME")), "HOME is given twice"),
        ((SecretUse(name="db", env="OWN"),), "OWN is given twice"),
        ((SecretUse(name="db", file="a"), SecretUse(name="b", file="a")), "a is given twice"),
        ((SecretUse(name="db", file="a"), SecretUse(name="b", file="a/b")), "cannot be the directory of a/b"),
        (tuple(SecretUse(name="db", file=f"f{n}") for n in range(MAX_SECRETS_PER_GROUP + 1)), "65 secrets"),
    ],
)
def test_a_job_that_asks_for_secrets_in_a_wrong_way_is_refused(uses, words):
    found = check_job(using(*uses, env=(("OWN", "1"),)), FeatureLevel.BOUNDED)
    assert found is not None
    assert words in str(found)


@pytest.mark.parametrize(("runtime", "image"), [(Runtime.DOCKER, "debian:12"), (Runtime.ROOTFS, "/images/a")])
def test_containers_get_files_and_no_variables_which_their_runtimes_write_to_disks(runtime, image):
    variable = using(SecretUse(name="db", env="DB"), runtime=runtime, image=image)
    assert "would write the variable DB to a disk" in str(check_job(variable, FeatureLevel.BOUNDED))
    file = using(SecretUse(name="db", file="db"), runtime=runtime, image=image)
    assert check_job(file, FeatureLevel.BOUNDED) is None


def test_before_level_5_there_are_no_secrets():
    assert {LEVEL_OF[kind] for kind in (SetSecret, DeleteSecret, ResealSecret)} == {FeatureLevel.BOUNDED}
    found = check_job(using(SecretUse(name="db", file="db")), FeatureLevel.FIRST)
    assert "this feature level has no secrets" in str(found)


def test_no_repr_has_a_ciphertext(c):
    command = setting(sealed="bm90LXNob3du")
    c.accept(command)
    assert "bm90LXNob3du" not in repr(command) + repr(c.state.secrets) + repr(c.log)
    again = ResealSecret(tenant="ml", name="db", version=1, sealed="bm90LXNob3du", key_id="k", cluster_id="")
    assert "bm90LXNob3du" not in repr(again)


def test_secrets_are_in_copies_of_the_state_and_in_its_digest(c):
    c.accept(setting())
    frozen, digest = c.state.freeze(), c.state.digest()
    assert restore(frozen).digest() == digest
    key, revision = "ml/db", c.state.revision
    c.state.put_secret(replace(c.state.secrets[key], sealed="b3RoZXI="))
    assert (c.state.digest() != digest, c.state.revision) == (True, revision)
    assert restore(frozen).secrets[key].sealed == SEALED


def _record(c: Cluster, name: str, sealed: str = SEALED):
    other = Cluster()
    other.accept(setting(name=name, sealed=sealed))
    return other.state.secrets[f"ml/{name}"]
