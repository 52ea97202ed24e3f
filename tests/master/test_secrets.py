"""SecretService on real masters with certificates: who may set what, what is told, rotation; what agents are sent."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from gosched.config.secrets_model import Secrets
from gosched.core.commands.secrets import SetSecret
from gosched.core.records.allocation import Allocation
from gosched.core.resources import Resources
from gosched.core.spec.secret_use import SecretUse
from gosched.master.agents.dispatch import MAX_SECRET_BYTES, Dispatcher
from gosched.master.agents.secret_opener import MAX_BYTES, NEEDS_TLS, NotYet, SecretOpener
from gosched.master.base.secret_keys import SecretKeys
from gosched.observe.faults import Faults
from gosched.wire.codec import to_message
from gosched.wire.secret_keys import Keyring, new_key_line, parse_keyring
from gosched.wire.secret_seal import seal, unseal
from gosched.wire.v1 import scheduler_pb2, secret_pb2, secret_pb2_grpc, types_pb2
from tests.access.stage import Stage, job_of, staged
from tests.audit.test_masters import records
from tests.master.harness import LIMIT_S, one_master
from tests.state_machine.cluster import Cluster, group
from tests.state_machine.cluster import spec as job_spec


def keyring(folder: Path, *ids: str) -> Path:
    file = folder / "keys"
    lines = file.read_text().splitlines() if file.exists() else []
    known = {line.partition(":")[0]: line for line in lines}
    file.touch(mode=0o600)
    file.write_text("".join(f"{known.get(key_id) or new_key_line(key_id)}\n" for key_id in ids))
    return file


def stub(stage: Stage, user: str, master: int = 0) -> Any:
    return secret_pb2_grpc.SecretServiceStub(stage.channel(user, master))


def setting(tenant: str = "a", name: str = "db", value: bytes = b"v", **more: str) -> secret_pb2.SetSecretRequest:
    return secret_pb2.SetSecretRequest(tenant=tenant, name=name, value=value, **more)


async def refused(call: Any) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as raised:
        await call
    return raised.value.code(), raised.value.details() or ""


async def listed(stage: Stage, user: str, tenant: str = "", master: int = 0) -> list[str]:
    answer = await stub(stage, user, master).ListSecrets(secret_pb2.ListSecretsRequest(tenant=tenant), timeout=LIMIT_S)
    return [f"{secret.tenant}/{secret.name}" for secret in answer.secrets]


def with_keys(folder: Path, *ids: str) -> dict[str, Any]:
    return {"secrets": {"key_file": str(keyring(folder, *ids or ("k1",)))}}


def test_who_sets_secrets_and_who_lists_them(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path, with_keys(tmp_path)) as stage:
            answer = await stub(stage, "tina").SetSecret(setting(), timeout=LIMIT_S)
            assert answer.version == 1
            await stub(stage, "root", 1).SetSecret(setting("b", "other"), timeout=LIMIT_S)  # over a follower
            for user, tenant in (("sue", "a"), ("vera", "a"), ("olga", "a"), ("tina", "b"), ("nick", "a")):
                code, _ = await refused(stub(stage, user).SetSecret(setting(tenant), timeout=LIMIT_S))
                assert code is grpc.StatusCode.PERMISSION_DENIED, user
            assert await listed(stage, "tina") == await listed(stage, "sue") == ["a/db"]
            assert await listed(stage, "bert") == ["b/other"]
            assert await listed(stage, "root", master=1) == ["a/db", "b/other"]
            assert await listed(stage, "sue", "a") == ["a/db"]
            code, _ = await refused(stub(stage, "sue").ListSecrets(secret_pb2.ListSecretsRequest(tenant="b")))
            assert code is grpc.StatusCode.PERMISSION_DENIED
            for user in ("vera", "olga", "nick"):
                code, _ = await refused(stub(stage, user).ListSecrets(secret_pb2.ListSecretsRequest()))
                assert code is grpc.StatusCode.PERMISSION_DENIED, user
            secret = stage.state.secrets["a/db"]
            assert (secret.changed_by, secret.key_id, secret.cluster_id) == ("tina", "k1", stage.state.cluster_id)
            await stub(stage, "tina").DeleteSecret(secret_pb2.DeleteSecretRequest(tenant="a", name="db"))
            assert await listed(stage, "sue") == []
            code, _ = await refused(
                stub(stage, "tina").DeleteSecret(secret_pb2.DeleteSecretRequest(tenant="a", name="db"))
            )
            assert code is grpc.StatusCode.NOT_FOUND

    asyncio.run(story())


def test_a_repeat_of_a_request_sets_once_and_another_users_request_of_that_id_is_another(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path, with_keys(tmp_path)) as stage:
            for _ in range(3):
                answer = await stub(stage, "tina").SetSecret(setting(client_id="c", request_id="1"), timeout=LIMIT_S)
                assert answer.version == 1
            again = await stub(stage, "root").SetSecret(setting(client_id="c", request_id="1"), timeout=LIMIT_S)
            assert again.version == 2

    asyncio.run(story())


@pytest.mark.parametrize(
    ("request_", "words"),
    [
        (setting(value=b""), "the value has 0 bytes"),
        (setting(value=b"marked-value" * 6000), "the value has 72000 bytes"),
        (setting(name="a/b"), "secret name"),
        (setting(name=""), "secret name is empty"),
        (setting(name="x" * 300), "secret name has"),
        (setting(tenant=""), "tenant is empty"),
        (setting(request_id="r" * 300), "request_id has 300 characters"),
    ],
)
def test_a_bad_request_is_refused_in_one_line_without_its_value(tmp_path: Path, request_: Any, words: str) -> None:
    async def story() -> None:
        async with one_master(**with_keys(tmp_path)) as master:
            found = secret_pb2_grpc.SecretServiceStub(master.channel)
            code, detail = await refused(found.SetSecret(request_, timeout=LIMIT_S))
            assert code is grpc.StatusCode.INVALID_ARGUMENT
            assert words in detail
            assert "\n" not in detail
            assert "marked-value" not in detail

    asyncio.run(story())


def test_a_master_without_keys_says_what_it_needs(tmp_path: Path) -> None:
    async def story() -> None:
        async with one_master() as master:
            found = secret_pb2_grpc.SecretServiceStub(master.channel)
            for call in (found.SetSecret(setting()), found.RotateSecrets(secret_pb2.RotateSecretsRequest())):
                code, detail = await refused(call)
                assert code is grpc.StatusCode.FAILED_PRECONDITION
                assert "secrets.key_file" in detail
            assert not (await found.ListSecrets(secret_pb2.ListSecretsRequest())).secrets

    asyncio.run(story())


def test_the_keys_rotate_without_a_restart_and_without_a_secret_that_does_not_open(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path, with_keys(tmp_path, "k1")) as stage:
            rpc = stub(stage, "root")
            for number in range(20):
                await rpc.SetSecret(setting(name=f"s{number}", value=f"v{number}".encode()), timeout=LIMIT_S)
            code, _ = await refused(stub(stage, "tina").RotateSecrets(secret_pb2.RotateSecretsRequest()))
            assert code is grpc.StatusCode.PERMISSION_DENIED
            ring = parse_keyring(keyring(tmp_path, "k2", "k1").read_bytes())
            for server in stage.servers:
                server._secret_keys.ask()
            async with asyncio.timeout(LIMIT_S):
                while any(server._secret_keys.keyring != ring for server in stage.servers):
                    await asyncio.sleep(0.01)
            assert {secret.key_id for secret in stage.state.secrets.values()} == {"k1"}
            done = await rpc.RotateSecrets(secret_pb2.RotateSecretsRequest(), timeout=LIMIT_S)
            assert (done.key_id, done.resealed) == ("k2", 20)
            assert (await rpc.RotateSecrets(secret_pb2.RotateSecretsRequest(), timeout=LIMIT_S)).resealed == 0
            new = Keyring(keys=ring.keys[:1])
            for number in range(20):
                secret = stage.state.secrets[f"a/s{number}"]
                assert unseal(secret, new, (stage.state.cluster_id,)) == f"v{number}".encode()
                assert secret.version == 1

    asyncio.run(story())


def test_a_rotation_that_cannot_open_one_says_which_and_leaves_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path, with_keys(tmp_path, "k1")) as stage:
            await stub(stage, "root").SetSecret(setting(), timeout=LIMIT_S)
            before = stage.state.secrets["a/db"]
            keyring(tmp_path, "k2")
            for server in stage.servers:
                server._secret_keys.look()
            code, detail = await refused(stub(stage, "root").RotateSecrets(secret_pb2.RotateSecretsRequest()))
            assert code is grpc.StatusCode.FAILED_PRECONDITION
            assert "secret a/db is sealed with key k1, which the masters do not have" in detail
            assert stage.state.secrets["a/db"] == before

    asyncio.run(story())


def test_a_job_that_names_a_secret_which_is_not_there_is_refused_at_submission(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path, with_keys(tmp_path)) as stage:
            await stub(stage, "root").SetSecret(setting("b", "db"), timeout=LIMIT_S)
            wanted = to_message(job_of("uses", "a"), types_pb2.JobSpec)
            wanted.groups[0].secrets.add(name="db", file="db")
            request = scheduler_pb2.SubmitJobRequest(spec=wanted)
            code, detail = await refused(stage.scheduler("sue").SubmitJob(request, timeout=LIMIT_S))
            assert code is grpc.StatusCode.NOT_FOUND
            assert "there is no secret a/db" in detail
            plan = scheduler_pb2.PlanJobRequest(specs=[wanted])
            assert await refused(stage.scheduler("sue").PlanJob(plan, timeout=LIMIT_S)) == (code, detail)
            await stub(stage, "tina").SetSecret(setting(), timeout=LIMIT_S)
            await stage.scheduler("sue").SubmitJob(request, timeout=LIMIT_S)

    asyncio.run(story())


def test_the_audit_log_has_who_set_which_secret_and_no_value(tmp_path: Path) -> None:
    async def story() -> None:
        more = {**with_keys(tmp_path), "audit": {"path": str(tmp_path / "audit")}}
        async with staged(tmp_path, more, masters=("m1",)) as stage:
            await stub(stage, "tina").SetSecret(setting(value=b"marked-value"), timeout=LIMIT_S)
            await refused(stub(stage, "sue").SetSecret(setting(name="mine", value=b"marked-value"), timeout=LIMIT_S))
            await stub(stage, "sue").ListSecrets(secret_pb2.ListSecretsRequest())
            await stub(stage, "tina").DeleteSecret(secret_pb2.DeleteSecretRequest(tenant="a", name="db"))
        found = [r for r in records(tmp_path / "audit") if r["action"].startswith("SecretService")]
        assert [(r["action"].partition("/")[2], r["user"], r.get("object"), r["outcome"]) for r in found] == [
            ("SetSecret", "tina", "secret a/db", "allowed"),
            ("SetSecret", "sue", None, "refused"),
            ("DeleteSecret", "tina", "secret a/db", "allowed"),
        ]
        assert "marked-value" not in str(found)

    asyncio.run(story())


# What agents are sent

KEYS = parse_keyring(new_key_line("k1").encode())


def ring(found: Keyring | None = KEYS) -> SecretKeys:
    keys = SecretKeys(Secrets(key_env="UNUSED"))
    keys.keyring = found
    return keys


def placed(*uses: SecretUse, address: str = "10.0.0.1:9", value: bytes = b"value") -> tuple[Cluster, Allocation]:
    c = Cluster()
    c.node("n1")
    node = c.state.nodes["n1"]
    c.state.put_node(type(node)(**{f: getattr(node, f) for f in node.__dataclass_fields__} | {"address": address}))
    sealed = seal(value, KEYS.first, tenant="ml", name="db", cluster_id="")
    c.accept(SetSecret(tenant="ml", name="db", sealed=sealed, key_id="k1", cluster_id=""))
    c.submit(job_spec("uses", group(secrets=uses), tenant="ml"), "j1")
    c.place("j1", "n1")
    (allocation,) = c.state.allocations.values()
    assert allocation.resources != Resources()
    return c, allocation


FILE, VARIABLE = SecretUse(name="db", file="db"), SecretUse(name="db", env="DB")


def test_a_task_is_sent_each_value_once_and_one_without_secrets_nothing() -> None:
    c, allocation = placed(FILE, VARIABLE)
    sent = SecretOpener(keys=ring(), tls=True).of(c.state, allocation)
    assert sent is not None
    assert [(each.name, each.value) for each in sent.values] == [("db", b"value")]
    assert (sent.allocation_id, sent.problem) == (allocation.id, "")
    c, allocation = placed()
    assert SecretOpener(keys=ring(), tls=True).of(c.state, allocation) is None


def test_a_secret_that_was_deleted_since_is_named_in_the_reason() -> None:
    c, allocation = placed(FILE)
    c.state.drop_secret("ml/db")
    sent = SecretOpener(keys=ring(), tls=True).of(c.state, allocation)
    assert sent is not None
    assert sent.problem.startswith("there is no secret ml/db any more")
    assert not sent.values


def test_one_that_does_not_open_is_a_reason_too() -> None:
    c, allocation = placed(FILE)
    other = parse_keyring(new_key_line("k2").encode())
    sent = SecretOpener(keys=ring(other), tls=True).of(c.state, allocation)
    assert sent is not None
    assert "key k1, which the masters do not have" in sent.problem
    without = SecretOpener(keys=SecretKeys(None), tls=True).of(c.state, allocation)
    assert without is not None
    assert "need secrets.key_file" in without.problem


def test_while_a_kms_is_down_tasks_wait() -> None:
    c, allocation = placed(FILE)
    with pytest.raises(NotYet):
        SecretOpener(keys=ring(None), tls=True).of(c.state, allocation)


@pytest.mark.parametrize(
    ("address", "by_way_of", "tls", "goes"),
    [
        ("10.0.0.1:9", "", True, True),
        ("10.0.0.1:9", "10.0.0.2", True, True),
        ("127.0.0.1:9", "", False, True),
        ("[::1]:9", "::1", False, True),
        ("localhost:9", "127.0.0.1", False, True),
        ("10.0.0.1:9", "", False, False),
        ("node-1.example:9", "", False, False),
        ("127.0.0.1:9", "10.0.0.2", False, False),
        ("127.0.0.1:9", "?", False, False),
        ("10.0.0.1:9", "127.0.0.1", False, False),
    ],
)
def test_values_cross_no_network_in_plain_text(address: str, by_way_of: str, tls: bool, goes: bool) -> None:
    c, allocation = placed(FILE, address=address)
    sent = SecretOpener(keys=ring(), tls=tls).of(c.state, allocation, by_way_of=by_way_of)
    assert sent is not None
    assert (bool(sent.values), sent.problem) == ((True, "") if goes else (False, NEEDS_TLS))


def test_more_than_an_agent_takes_is_a_reason() -> None:
    assert MAX_BYTES < 64 * 64 * 1024
    c, allocation = placed(FILE, value=b"x" * 60_000)
    for number in range(20):
        sealed = seal(b"x" * 60_000, KEYS.first, tenant="ml", name=f"s{number}", cluster_id="")
        c.accept(SetSecret(tenant="ml", name=f"s{number}", sealed=sealed, key_id="k1", cluster_id=""))
    uses = tuple(SecretUse(name=f"s{number}", file=f"s{number}") for number in range(20))
    job = c.state.jobs["j1"]
    assert job.spec.groups[0].secrets == (FILE,)
    c.submit(job_spec("large", group(secrets=uses), tenant="ml"), "j2")
    c.node("n2")
    c.place("j2", "n2")
    allocation = next(each for each in c.state.allocations.values() if each.job_id == "j2")
    sent = SecretOpener(keys=ring(), tls=True).of(c.state, allocation)
    assert sent is not None
    assert "take more than" in sent.problem
    assert not sent.values


def test_starts_with_many_secrets_go_in_several_messages_and_what_waits_for_a_kms_is_left_out() -> None:
    c = Cluster()
    c.node("n1", cpus=200)
    values = [f"s{number}" for number in range(15)]
    for name in values:
        sealed = seal(b"x" * 60_000, KEYS.first, tenant="ml", name=name, cluster_id="")
        c.accept(SetSecret(tenant="ml", name=name, sealed=sealed, key_id="k1", cluster_id=""))
    uses = tuple(SecretUse(name=name, file=name) for name in values)
    c.submit(job_spec("many", group(count=10, secrets=uses), tenant="ml"), "j1")
    c.place("j1", "n1")
    ids = [*c.state.allocations]
    replication: Any = SimpleNamespace(state=c.state)
    channels: Any = None
    sends = Dispatcher(replication, channels, SecretOpener(keys=ring(), tls=True), None, Faults())
    requests = list(sends._start_requests(ids))
    assert [order.allocation_id for request in requests for order in request.orders] == ids
    assert all(len(request.orders) == len(request.secrets) > 0 for request in requests)
    assert len(requests) == 3
    assert max(request.ByteSize() for request in requests) < MAX_SECRET_BYTES + (1 << 20)
    waits = Dispatcher(replication, channels, SecretOpener(keys=ring(None), tls=True), None, Faults())
    assert list(waits._start_requests(ids)) == []
