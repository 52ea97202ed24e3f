"""REST of secrets: set, listed, deleted; a bad body is refused without a word of its value."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from gosched.client import GoSchedClient
from gosched.client.aio.client import AsyncGoSchedClient
from gosched.wire.secret_keys import parse_keyring
from gosched.wire.secret_seal import unseal
from tests.master.harness import Front, one_master
from tests.master.http_client import Answer, get, request
from tests.master.test_secrets import with_keys

API = "/api/v1"
MARKED = "marked-value"


async def put(to: Front, path: str, body: Any, **headers: str) -> Answer:
    return await request(to, "PUT", API + path, body=body, headers=headers)


def test_secrets_are_set_listed_and_deleted_over_rest_and_by_both_clients(tmp_path: Path) -> None:
    async def story() -> None:
        async with one_master(**with_keys(tmp_path)) as master:
            ring = parse_keyring((tmp_path / "keys").read_bytes())

            def value(key: str) -> bytes:
                return unseal(master.state.secrets[key], ring, (master.state.cluster_id,))

            first = await put(master, "/secrets/ml/text", {"value": MARKED})
            assert (first.status, first.json()["version"]) == (200, 1)
            coded = base64.b64encode(b"\0\xff").decode()
            await put(master, "/secrets/ml/bytes", {"value_base64": coded})
            assert (value("ml/text"), value("ml/bytes")) == (MARKED.encode(), b"\0\xff")
            headers = {"Idempotency-Key": "k1"}
            for _ in range(2):
                again = await request(master, "PUT", f"{API}/secrets/ml/text", body={"value": "other"}, headers=headers)
                assert again.json()["version"] == 2
            found = (await get(master, f"{API}/secrets?tenant=ml")).json()
            assert [(one["name"], one["version"], one["key_id"]) for one in found] == [
                ("bytes", 1, "k1"),
                ("text", 2, "k1"),
            ]
            assert MARKED not in str(found)
            done = await request(master, "POST", f"{API}/secrets/rotate")
            assert (done.json()["key_id"], done.json()["resealed"]) == ("k1", 0)
            assert (await request(master, "DELETE", f"{API}/secrets/ml/text")).status == 200
            assert (await request(master, "DELETE", f"{API}/secrets/ml/text")).status == 404

            async with AsyncGoSchedClient(master.server.record.grpc_address) as client:
                assert await client.set_secret("ml", "new", "text") == 1
                assert [secret.name for secret in await client.list_secrets()] == ["bytes", "new"]
                await client.delete_secret("ml", "new")
                assert (await client.rotate_secrets()).resealed == 0

            def in_thread() -> None:
                with GoSchedClient(master.server.record.grpc_address) as client:
                    assert client.set_secret("ml", "new", b"\0") == 1
                    assert [secret.tenant for secret in client.list_secrets("ml")] == ["ml", "ml"]
                    client.delete_secret("ml", "new")

            await asyncio.to_thread(in_thread)
            assert [*master.state.secrets] == ["ml/bytes"]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ({"value": 7_777_777}, "value: expected a text"),
        ({"value": [MARKED]}, "value: expected a text"),
        ({"value": MARKED, "value_base64": "YQ=="}, "and nothing else"),
        ({"value": MARKED, "more": 1}, "and nothing else"),
        ({"valu": MARKED}, "expected an object"),
        ({"value_base64": f"{MARKED}!"}, "it is not base64"),
        ({"value": ""}, "the value has 0 bytes"),
        ([MARKED], "expected an object"),
        (MARKED, "expected an object"),
        (None, "expected an object"),
    ],
)
def test_a_bad_body_is_refused_without_a_word_of_the_value(tmp_path: Path, body: Any, words: str) -> None:
    async def story() -> None:
        async with one_master(**with_keys(tmp_path)) as master:
            answer = await put(master, "/secrets/ml/db", body)
            assert answer.status == 400, answer.text
            if body is not None:
                assert words in answer.json()["detail"]
            assert MARKED not in answer.text
            assert "7777777" not in answer.text
            assert not master.state.secrets

    asyncio.run(story())
