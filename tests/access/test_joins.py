"""Tokens to join with, against two masters with certificates: what a token gets, and what gets nothing."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import time
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa
from cryptography.x509.oid import NameOID

from gosched.core.reasons import RefusalReason
from gosched.wire.certificate_request import MAX_REQUEST_BYTES, make_request, new_key
from gosched.wire.refusals import refusal_reason
from gosched.wire.signing import key_pem
from gosched.wire.v1 import join_pb2, join_pb2_grpc, node_pb2, node_pb2_grpc
from tests.access.joins import ONE_REFUSAL, asked, guest, joinable, new_token, operator
from tests.access.stage import staged
from tests.access.test_tokens import code
from tests.master.harness import until

SIZES = {"cpu_millis": 1000, "memory_bytes": 1 << 30}


async def refusal(call: Any) -> tuple[str, str]:
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await call
    return str(refused.value.code().name), refused.value.details() or ""


def names_of(answer: join_pb2.JoinResponse) -> tuple[list[str], list[str]]:
    """The URIs, and the hosts and addresses of a certificate."""
    certificate = x509.load_pem_x509_certificates(answer.certificate)[0]
    names = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    hosts = [str(one) for one in names.get_values_for_type(x509.IPAddress)]
    return names.get_values_for_type(x509.UniformResourceIdentifier), [
        *names.get_values_for_type(x509.DNSName),
        *hosts,
    ]


@pytest.mark.parametrize("master", [0, 1], ids=["leader", "follower"])
def test_a_token_is_traded_for_a_certificate_once_and_by_one_key_alone(tmp_path: Path, master: int) -> None:
    async def story() -> None:
        async with joinable(tmp_path) as stage, guest(stage, master) as joins:
            made, key = await new_token(stage), new_key()
            answer = await joins.Join(asked(made.secret, key=key))
            assert names_of(answer) == ([f"gosched://{stage.state.cluster_id}/agent/n1"], ["127.0.0.1"])
            assert answer.authorities == Path(stage.authority.folder, "ca.pem").read_bytes()
            assert sorted(answer.masters) == sorted(server.record.grpc_address for server in stage.servers)
            again = await joins.Join(asked(made.secret, key=key))  # its answer was lost
            assert names_of(again) == names_of(answer)
            assert (await refusal(joins.Join(asked(made.secret))))[0] == "UNAUTHENTICATED"
            assert (await refusal(joins.Join(asked(made.secret, "n2", key))))[0] == "UNAUTHENTICATED"
            assert list(stage.state.joined_nodes) == ["n1"]

    asyncio.run(story())


def test_of_two_agents_with_one_token_at_once_one_joins(tmp_path: Path) -> None:
    async def story() -> None:
        async with joinable(tmp_path) as stage, guest(stage, 0) as here, guest(stage, 1) as there:
            for turn in range(5):
                made = await new_token(stage)
                calls = [joins.Join(asked(made.secret, f"n{turn}-{i}")) for i, joins in enumerate((here, there) * 4)]
                found = await asyncio.gather(*map(code, calls))
                assert sorted(set(found)) == ["OK", "UNAUTHENTICATED"]
                assert found.count("OK") == 1
            assert len(stage.state.joined_nodes) == 5

    asyncio.run(story())


def test_whatever_is_wrong_with_a_token_is_refused_in_the_same_words_and_the_audit_log_knows_why(
    tmp_path: Path,
) -> None:
    async def story() -> None:
        async with joinable(tmp_path, audit={"target": "file"}) as stage, guest(stage) as joins:
            used, revoked, over = await new_token(stage), await new_token(stage), await new_token(stage, lasts_ms=1)
            await joins.Join(asked(used.secret))
            await operator(stage).RevokeJoinToken(join_pb2.RevokeJoinTokenRequest(id=revoked.token.id))
            other = used.secret.replace(used.token.id, revoked.token.id)
            wrong = (used.secret, revoked.secret, over.secret, other, "", "x" * 6000, used.secret[:-1], "gosched-join")
            words = {await refusal(joins.Join(asked(secret, "n9"))) for secret in wrong}
            assert {name for name, _ in words} == {"UNAUTHENTICATED"}
            assert len(words) == 1
            assert ONE_REFUSAL in words.pop()[1]
            log = await until(lambda: _audit(tmp_path, "was used by node n1"))
            assert f"join token {over.token.id} has ended" in log
            assert f"there is no join token '{revoked.token.id}'" in log
            for made in (used, revoked, over):
                assert made.secret not in log
                assert made.secret not in repr(stage.state.join_tokens)

    asyncio.run(story())


def _audit(folder: Path, words: str) -> str:
    text = "".join(path.read_text() for path in folder.glob("m1/audit/*"))
    return text if words in text else ""


def test_a_token_of_another_cluster_is_refused_like_a_wrong_one(tmp_path: Path) -> None:
    async def story() -> None:
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
        async with joinable(tmp_path / "one") as stage, joinable(tmp_path / "two") as other, guest(stage) as joins:
            made = await new_token(other)
            name, words = await refusal(joins.Join(asked(made.secret)))
            assert name == "UNAUTHENTICATED"
            assert ONE_REFUSAL in words

    asyncio.run(story())


def test_no_token_makes_its_holder_another_node(tmp_path: Path) -> None:
    async def story() -> None:
        async with joinable(tmp_path) as stage, guest(stage) as joins:
            first = await joins.Join(asked((await new_token(stage)).secret, key=(key := new_key())))
            async with _as(stage, first, key) as (nodes, _):
                await nodes.RegisterNode(registration("n1"))
                for node, name in (("n2", "n1"), ("n2", "n2")):
                    found = await refusal(nodes.RegisterNode(registration(node, name=name)))
                    assert found[0] == "PERMISSION_DENIED", found
            made = await new_token(stage, node="n*")
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await joins.Join(asked(made.secret, "n1"))
            assert refused.value.code() is grpc.StatusCode.ALREADY_EXISTS
            assert refusal_reason(refused.value) == RefusalReason.NODE_ID_IN_USE
            await joins.Join(asked(made.secret, "n3"))  # it was not used up
            assert (await refusal(joins.Join(asked((await new_token(stage, node="n4")).secret, "n5"))))[0] == (
                "FAILED_PRECONDITION"
            )
            exact = await new_token(stage, node="n1")
            assert names_of(await joins.Join(asked(exact.secret, "n1")))[0][0].endswith("/agent/n1")

    asyncio.run(story())


def registration(node: str, **more: Any) -> node_pb2.RegisterNodeRequest:
    known = {"node_id": node, "name": node, "incarnation": "b1", "address": "127.0.0.1:1", "clock_ms": _now_ms()}
    request = node_pb2.RegisterNodeRequest(**{**known, **more})
    request.capacity.cpu_millis, request.capacity.memory_bytes = SIZES["cpu_millis"], SIZES["memory_bytes"]
    return request


def _now_ms() -> int:
    return int(time.time() * 1000)


def _as(stage: Any, answer: join_pb2.JoinResponse, key: ec.EllipticCurvePrivateKey, *, master: int = 0) -> Any:
    """Stubs of an agent with this certificate."""

    @contextlib.asynccontextmanager
    async def opened() -> Any:
        credentials = grpc.ssl_channel_credentials(answer.authorities, key_pem(key), answer.certificate)
        address = f"127.0.0.1:{stage.servers[master].record.grpc_address.rpartition(':')[2]}"
        async with grpc.aio.secure_channel(address, credentials) as channel:
            yield node_pb2_grpc.NodeServiceStub(channel), join_pb2_grpc.JoinServiceStub(channel)

    return opened()


def test_the_labels_of_a_token_are_the_nodes_whatever_its_agent_says(tmp_path: Path) -> None:
    async def story() -> None:
        async with joinable(tmp_path) as stage, guest(stage) as joins:
            made, key = await new_token(stage, labels={"zone": "a", "team": "nlp"}), new_key()
            answer = await joins.Join(asked(made.secret, key=key))
            async with _as(stage, answer, key) as (nodes, _):
                for boot in ("b1", "b2"):
                    labels = {"zone": "b", "rack": boot}
                    await nodes.RegisterNode(registration("n1", incarnation=boot, labels=labels))
                    found = dict(stage.state.nodes["n1"].labels)
                    assert found == {"zone": "a", "team": "nlp", "rack": boot}

    asyncio.run(story())


def request_for(key: Any, *names: x509.GeneralName, name: str = "m1") -> bytes:
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateSigningRequestBuilder().subject_name(subject)
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    algorithm = None if isinstance(key, ed25519.Ed25519PrivateKey) else hashes.SHA256()
    return builder.sign(key, algorithm).public_bytes(serialization.Encoding.PEM)


#: A request with an RSA key of 512 bits, by OpenSSL: the library that makes the others refuses to make one.
RSA_512 = b"""\
-----BEGIN CERTIFICATE REQUEST-----
MIHGMHICAQAwDTELMAkGA1UEAwwCbjEwXDANBgkqhkiG9w0BAQEFAANLADBIAkEA
q5HfhdWjXQgUgkmi683YwYT46WFGFCAR9F5txoLhm2/mWR5KSoXGUP7Qu1Yitq6I
K4A40XfEB0+hiBh6yVSCqQIDAQABoAAwDQYJKoZIhvcNAQELBQADQQCoj9PhIDgd
WrQzwO0kIL4AZ1nOwHsPN9ZkUWy6+EzhsOeyh3ag2kPWr2E82ELL0x9MLkGzKDUT
PBnXyib/Lwg4
-----END CERTIFICATE REQUEST-----
"""


def test_requests_for_certificates_that_are_refused(tmp_path: Path) -> None:
    valid = make_request(new_key(), "n1")
    bad = {
        "huge": valid + b"x" * MAX_REQUEST_BYTES,
        "empty": b"",
        "malformed": valid[: len(valid) // 2],
        "not PEM": b"\x00\xff" * 100,
        "a certificate": b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        "RSA 512": RSA_512,
        "RSA 1024": request_for(rsa.generate_private_key(65537, 1024)),  # noqa: S505 - weak, and refused
        "Ed25519": request_for(ed25519.Ed25519PrivateKey.generate()),
        "another curve": request_for(ec.generate_private_key(ec.SECP256K1())),
        "another's signature": _with_other_key(),
    }

    async def story() -> None:
        async with joinable(tmp_path) as stage, guest(stage) as joins:
            made = await new_token(stage)
            for what, csr in bad.items():
                found = await refusal(joins.Join(asked(made.secret, csr=csr)))
                assert found[0] == "INVALID_ARGUMENT", what
                assert "request for a certificate" in found[1], what
                assert "\n" not in found[1], what
            assert not stage.state.join_tokens[made.token.id].used_key
            await joins.Join(asked(made.secret))

    asyncio.run(story())


def _with_other_key() -> bytes:
    """A request whose key was swapped after it was signed."""
    one, other = new_key(), new_key()
    form = serialization.PublicFormat.SubjectPublicKeyInfo
    old, new = (key.public_key().public_bytes(serialization.Encoding.DER, form) for key in (one, other))
    request = x509.load_pem_x509_csr(make_request(one, "n1")).public_bytes(serialization.Encoding.DER)
    assert request.count(old) == 1
    text = base64.encodebytes(request.replace(old, new)).decode()
    return f"-----BEGIN CERTIFICATE REQUEST-----\n{text}-----END CERTIFICATE REQUEST-----\n".encode()


def test_names_in_a_request_count_for_nothing(tmp_path: Path) -> None:
    names = (
        x509.UniformResourceIdentifier("gosched:///master/m1"),
        x509.DNSName("*.agent.gosched.internal"),
        x509.DNSName("m1.master.gosched.internal"),
        x509.DNSName("*.example.com"),
    )

    async def story() -> None:
        async with joinable(tmp_path) as stage, guest(stage) as joins:
            made = await new_token(stage)
            answer = await joins.Join(asked(made.secret, csr=request_for(new_key(), *names)))
            assert names_of(answer) == ([f"gosched://{stage.state.cluster_id}/agent/n1"], ["127.0.0.1"])
            certificate = x509.load_pem_x509_certificates(answer.certificate)[0]
            assert certificate.subject.rfc4514_string() == "CN=n1"
            assert not certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca

    asyncio.run(story())


def test_hosts_are_those_that_an_agent_calls_from_or_that_its_token_names(tmp_path: Path) -> None:
    async def story() -> None:
        async with joinable(tmp_path) as stage, guest(stage, 1) as joins:
            made = await new_token(stage, hosts=["gpu-1.example.com", "10.0.0.7"])
            for bad in ("m1.master.gosched.internal", "*.example.com", "*", "a b", "x" * 300):
                assert (await refusal(joins.Join(asked(made.secret, hosts=[bad]))))[0] == "INVALID_ARGUMENT", bad
            for other in ("10.0.0.8", "no-such-host.invalid"):
                found = await refusal(joins.Join(asked(made.secret, hosts=["127.0.0.1", other])))
                assert found[0] == "PERMISSION_DENIED"
                assert f"--host {other}" in found[1]
            hosts = ["10.0.0.7", "127.0.0.1", "gpu-1.example.com", "localhost"]
            answer = await joins.Join(asked(made.secret, hosts=hosts))
            assert sorted(names_of(answer)[1]) == hosts
            empty = await new_token(stage)
            assert names_of(await joins.Join(asked(empty.secret, "n2", hosts=[])))[1] == ["127.0.0.1"]

    asyncio.run(story())


def test_names_that_no_node_may_have(tmp_path: Path) -> None:
    async def story() -> None:
        async with joinable(tmp_path) as stage, guest(stage) as joins:
            made = await new_token(stage)
            for node in ("", "*", "a/b", "a b", "x" * 300, "n\n1"):
                assert (await refusal(joins.Join(asked(made.secret, node))))[0] == "INVALID_ARGUMENT", node

    asyncio.run(story())


def test_an_agent_that_joined_renews_its_own_certificate_and_no_other_one(tmp_path: Path) -> None:
    async def story() -> None:
        async with joinable(tmp_path) as stage, guest(stage) as joins:
            key, renewed = new_key(), new_key()
            answer = await joins.Join(asked((await new_token(stage)).secret, key=key))
            request = join_pb2.RenewCertificateRequest(csr=request_for(renewed, name="n2"))
            assert (await refusal(joins.RenewCertificate(request)))[0] == "UNAUTHENTICATED"  # a guest
            assert (await refusal(operator(stage).RenewCertificate(request)))[0] == "PERMISSION_DENIED"
            async with _as(stage, answer, key) as (_, mine):
                lost = await mine.RenewCertificate(request)
                found = await mine.RenewCertificate(request)  # as an agent that was killed before it stored that
                assert names_of(found) == names_of(lost) == names_of(answer)
            async with _as(stage, lost, renewed) as (_, mine):
                assert (await refusal(mine.RenewCertificate(request)))[0] == "PERMISSION_DENIED"
            async with _as(stage, found, renewed, master=1) as (nodes, mine):  # a follower passes it on
                await nodes.RegisterNode(registration("n1"))
                found = await mine.RenewCertificate(request)
            # The name goes to another machine: what has the old one's certificate gets no other, nor that one's hosts.
            await joins.Join(asked((await new_token(stage, node="n1")).secret))
            async with _as(stage, found, renewed) as (_, mine):
                assert (await refusal(mine.RenewCertificate(request)))[0] == "PERMISSION_DENIED"
            by_hand = stage.authority.files("n7", "agent")
            pem = [Path(path).read_bytes() for path in (by_hand.ca, by_hand.key, by_hand.cert)]
            address = stage.servers[0].record.grpc_address
            async with grpc.aio.secure_channel(address, grpc.ssl_channel_credentials(*pem)) as channel:
                stub = join_pb2_grpc.JoinServiceStub(channel)
                assert "did not join" in (await refusal(stub.RenewCertificate(request)))[1]

    asyncio.run(story())


def test_operators_make_list_and_revoke_tokens_and_users_do_not(tmp_path: Path) -> None:
    async def story() -> None:
        async with joinable(tmp_path) as stage:
            made = await new_token(stage, node="gpu-*", labels={"zone": "a"})
            assert (made.token.digest, made.token.used_key) == ("", "")
            listed = await operator(stage, 1).ListJoinTokens(join_pb2.ListJoinTokensRequest())
            assert [one.id for one in listed.tokens] == [made.token.id]
            for user in ("sue", "tina", "nick"):
                stub = operator(stage, user=user)
                request = join_pb2.CreateJoinTokenRequest(name="t", lasts_ms=1000)
                assert (await refusal(stub.CreateJoinToken(request)))[0] == "PERMISSION_DENIED"
                assert (await refusal(stub.ListJoinTokens(join_pb2.ListJoinTokensRequest())))[0] == "PERMISSION_DENIED"
            bad_requests: list[dict[str, Any]] = [
                {"lasts_ms": 0},
                {"lasts_ms": 10**12},
                {"name": ""},
                {"node": "[a-z]"},
                {"hosts": ["*"]},
                {"labels": {"gosched.io/node": "another"}},
            ]
            for bad in bad_requests:
                request = join_pb2.CreateJoinTokenRequest(**{"name": "t", "lasts_ms": 1000, **bad})
                assert (await refusal(operator(stage).CreateJoinToken(request)))[0] == "INVALID_ARGUMENT"
            await operator(stage).RevokeJoinToken(join_pb2.RevokeJoinTokenRequest(id=made.token.id))
            assert stage.state.join_tokens == {}

    asyncio.run(story())


def test_without_an_authority_joining_is_refused_with_a_line_that_names_the_keys(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path) as stage:
            request = join_pb2.CreateJoinTokenRequest(name="t", lasts_ms=1000)
            found = await refusal(operator(stage).CreateJoinToken(request))
            assert found[0] == "FAILED_PRECONDITION"
            assert "set join.ca_cert and join.ca_key" in found[1]

    asyncio.run(story())
