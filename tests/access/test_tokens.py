"""Tokens: what they grant, and what becomes of those that are not valid."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import grpc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gosched.core.commands.access import CreateToken
from gosched.core.commands.cluster import SetClock
from gosched.core.commands.command import Command
from gosched.core.outcome import Accepted
from gosched.core.records.access import AccessRole, Token
from gosched.core.state.cluster_state import ClusterState
from gosched.master.base.tokens import bearer, find, new_secret
from gosched.state_machine import access as rules
from gosched.state_machine import apply
from gosched.wire.v1 import access_pb2, scheduler_pb2, types_pb2
from tests.access.stage import BINDINGS, Stage, end_of, staged, submission
from tests.master import http_client
from tests.master.harness import LIMIT_S

HOUR_MS = 3_600_000


def asked(role: Any = types_pb2.ACCESS_ROLE_SUBMITTER, **more: Any) -> access_pb2.CreateTokenRequest:
    return access_pb2.CreateTokenRequest(**{"name": "ci", "role": role, "lasts_ms": HOUR_MS, **more})


async def code(call: Any) -> str:
    try:
        await call
    except grpc.aio.AioRpcError as error:
        return str(error.code().name)
    return "OK"


def with_token(secret: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {secret}"),)


async def status(stage: Stage, secret: str, path: str = "/api/v1/jobs/own", master: int = 0) -> int:
    """Return what REST answers to a certificate of nobody with a token."""
    address = f"localhost:{stage.servers[master].record.http_address.rpartition(':')[2]}"
    headers = {"Authorization": f"Bearer {secret}"}
    return (await http_client.request(address, "GET", path, headers=headers, tls=stage.context("nick"))).status


@pytest.mark.parametrize("master", [0, 1], ids=["leader", "follower"])
def test_a_token_grants_what_both_it_and_its_user_may(tmp_path: Path, master: int) -> None:
    async def story() -> None:
        async with staged(tmp_path) as stage:
            made = await stage.access("tina").CreateToken(asked(tenants=["a"], queues=["root.a"]))
            await asyncio.sleep(0)
            nick = stage.scheduler("nick", master)
            token = with_token(made.secret)
            job = scheduler_pb2.GetJobRequest(job="own")
            assert await code(nick.GetJob(job)) == "PERMISSION_DENIED"
            assert await code(nick.GetJob(job, metadata=token)) == "OK"
            # tina may cancel it as a tenant-admin; her token is a submitter's, and the job is not her own.
            assert await code(stage.scheduler("tina").ControlJob(hold("own"))) == "OK"
            assert await code(nick.ControlJob(hold("own"), metadata=token)) == "PERMISSION_DENIED"
            assert await code(nick.SubmitJob(submission("by-token", "a"), metadata=token)) == "OK"
            assert stage.state.find_job("by-token").user == "tina"
            assert await code(nick.SubmitJob(submission("x", "b"), metadata=token)) == "PERMISSION_DENIED"
            assert await code(stage.access("nick", master).CreateToken(asked(), metadata=token)) == "PERMISSION_DENIED"
            assert await status(stage, made.secret, master=master) == 200
            # What its user loses, it loses.
            await stage.bind(*[one for one in BINDINGS if one.name != "lead"])
            assert await code(nick.GetJob(job, metadata=token)) in ("NOT_FOUND", "PERMISSION_DENIED")

    asyncio.run(story())


def hold(job: str) -> scheduler_pb2.ControlJobRequest:
    return scheduler_pb2.ControlJobRequest(job=job, action=1)


def test_a_token_that_is_wrong_revoked_or_over_is_refused_in_the_same_words(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path) as stage:
            access = stage.access("sue")
            made, short = await access.CreateToken(asked()), await access.CreateToken(asked(lasts_ms=1))
            other = await access.CreateToken(asked())
            assert await status(stage, made.secret) == 200
            await access.RevokeToken(access_pb2.RevokeTokenRequest(id=made.token.id))
            swapped = made.secret.replace(made.token.id, other.token.id)
            wrong = (
                made.secret,
                short.secret,
                swapped,
                other.secret[:-1],
                "gosched__",
                "gosched_x",
                "x" * 6000,
                "a.b.c",
            )
            words = set()
            for secret in wrong:
                with pytest.raises(grpc.aio.AioRpcError) as refused:
                    await stage.scheduler("sue").GetJob(
                        scheduler_pb2.GetJobRequest(job="own"), metadata=with_token(secret)
                    )
                assert refused.value.code() is grpc.StatusCode.UNAUTHENTICATED, secret
                words.add(refused.value.details())
                assert await status(stage, secret) == 401
            assert len(words) == 1
            assert await status(stage, other.secret) == 200

    asyncio.run(story())


def test_a_stream_ends_with_the_token_that_opened_it(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path) as stage, asyncio.timeout(LIMIT_S):
            made = await stage.access("sue").CreateToken(asked())
            watch = stage.scheduler("nick").WatchJob(
                scheduler_pb2.GetJobRequest(job="own"), metadata=with_token(made.secret)
            )
            await watch.read()
            await stage.access("sue").RevokeToken(access_pb2.RevokeTokenRequest(id=made.token.id))
            assert await end_of(watch) == "UNAUTHENTICATED"

    asyncio.run(story())


def test_tokens_are_made_seen_and_revoked_by_their_users_and_administrators(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path) as stage:
            sue, mate, root = (stage.access(user) for user in ("sue", "mate", "root"))
            made = await sue.CreateToken(asked())
            assert made.token.digest == ""
            held = stage.state.tokens[made.token.id]
            assert made.secret not in repr(held)
            assert (held.user, held.role) == ("sue", AccessRole.SUBMITTER)
            assert await code(sue.CreateToken(asked(user="mate"))) == "PERMISSION_DENIED"
            assert (await root.CreateToken(asked(user="bot", groups=["auditors"]))).token.user == "bot"
            assert [t.id for t in (await sue.ListTokens(access_pb2.ListTokensRequest())).tokens] == [made.token.id]
            assert len((await root.ListTokens(access_pb2.ListTokensRequest())).tokens) == 2
            assert not (await mate.ListTokens(access_pb2.ListTokensRequest())).tokens
            revoke = access_pb2.RevokeTokenRequest(id=made.token.id)
            assert await code(mate.RevokeToken(revoke)) == "NOT_FOUND"
            assert await code(root.RevokeToken(revoke)) == "OK"
            for bad in (asked(lasts_ms=0), asked(lasts_ms=10**12), asked(role=0), asked(role=99), asked(name="a b")):
                assert await code(sue.CreateToken(bad)) == "INVALID_ARGUMENT"

    asyncio.run(story())


def test_the_repeat_of_a_request_gets_no_second_token(tmp_path: Path) -> None:
    async def story() -> None:
        async with staged(tmp_path) as stage:
            request = asked(client_id="c", request_id="r")
            await stage.access("sue").CreateToken(request)
            assert await code(stage.access("sue").CreateToken(request)) == "FAILED_PRECONDITION"
            assert len(stage.state.tokens) == 1

    asyncio.run(story())


@given(st.text(max_size=600))
def test_no_text_but_the_secret_finds_a_token(text: str) -> None:
    token_id, secret, digest = new_secret()
    token = Token(
        id=token_id, name="t", user="u", role=AccessRole.VIEWER, digest=digest, created_at_ms=1, expires_at_ms=10
    )
    tokens = {token_id: token}
    assert find(tokens, secret, 5) is token
    assert find(tokens, secret, 10) is None
    for guess in (text, f"gosched_{token_id}_{text}", secret + text if text else text):
        assert find(tokens, guess, 5) is None


@pytest.mark.parametrize(
    ("header", "found"),
    [("Bearer x", "x"), ("bearer  x ", "x"), ("Basic x", ""), ("Bearer", ""), ("", ""), ("Bearerx", "")],
)
def test_a_bearer_is_read_from_its_header(header: str, found: str) -> None:
    assert bearer([("Host", "m"), ("Authorization", header)]) == found


def test_a_token_that_has_ended_gives_its_place_when_it_is_needed_and_not_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The state's clock, by which it has ended, may have been ahead, and be set back."""
    monkeypatch.setattr(rules, "MAX_TOKENS", 2)
    state = ClusterState()

    def make(token_id: str, at_ms: int) -> bool:
        given = {"id": token_id, "name": "t", "user": "u", "role": AccessRole.VIEWER, "digest": "a" * 64}
        token = Token(**given, created_at_ms=at_ms, expires_at_ms=at_ms + HOUR_MS)  # type: ignore[arg-type]
        return isinstance(apply(state, Command(body=CreateToken(token=token)))[0], Accepted)

    assert make("one", 1)
    apply(state, Command(body=SetClock(to_ms=9 * HOUR_MS)))
    assert make("two", 9 * HOUR_MS)
    apply(state, Command(body=SetClock(to_ms=2)))
    assert state.tokens["one"].expires_at_ms > state.clock_ms, "it is good again"
    assert not make("three", 2)
    apply(state, Command(body=SetClock(to_ms=2 * HOUR_MS)))
    assert make("three", 2 * HOUR_MS)
    assert "one" not in state.tokens
