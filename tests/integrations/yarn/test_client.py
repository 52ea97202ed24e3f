"""The clients of YARN against a server that answers badly; the real one is in tests/integration/test_yarn.py."""

from __future__ import annotations

import asyncio
import inspect
import json
import socket
import ssl
import threading
from pathlib import Path

import pytest

from gosched.integrations.yarn import (
    AsyncYarnClient,
    LocalResource,
    Submission,
    YarnBadAnswer,
    YarnClient,
    YarnDenied,
    YarnMisused,
    YarnNotFound,
    YarnRefused,
    YarnTimedOut,
    YarnUnreachable,
)
from gosched.integrations.yarn.client import Line
from gosched.integrations.yarn.steps import Exchange
from gosched.wire.http_exchange import Unreachable
from tests.wire.tls import authority, issued

from .scripted import Answer, serving

ID = "application_1700000000000_0001"
APP = {"id": ID, "state": "RUNNING"}
INFO = {"clusterInfo": {"id": 7, "state": "STARTED", "haState": "ACTIVE"}}
STANDBY = Answer(b"This is standby RM.", 307, {"Location": "http://rm2:8088/ws/v1/cluster/info"})
NO_ACTIVE = Answer(b"Can not find any active RM. Will retry in next 1 seconds.", 200, {"Refresh": "1;url=/"})


def client(*urls: str, **more: object) -> YarnClient:
    return YarnClient(urls, **{"timeout_s": 5.0, "failover_s": 0.0, **more})  # type: ignore[arg-type]


def exception(words: str, status: int, kind: str = "NotFoundException") -> Answer:
    return Answer({"RemoteException": {"exception": kind, "message": words, "javaClassName": f"org.{kind}"}}, status)


@pytest.mark.parametrize("apps", [None, {}, "", {"app": []}, {"app": None}, {"app": ""}])
def test_no_applications_come_in_several_forms(apps: object) -> None:
    with serving(Answer({"apps": apps})) as rm:
        assert client(rm.url).apps() == ()


def test_a_list_of_one_may_come_as_an_object() -> None:
    with serving(Answer({"apps": {"app": APP}}), Answer({"apps": {"app": [APP]}})) as rm:
        yarn = client(rm.url)
        assert yarn.apps() == yarn.apps()


def test_a_name_that_is_repeated_is_a_list() -> None:
    apps = ", ".join(f'"app": {{"id": "{name}", "state": "NEW"}}' for name in "abc")
    doubled = f'{{"apps": {{{apps}}}}}'.encode()
    with serving(Answer(doubled)) as rm:
        assert [app.id for app in client(rm.url).apps()] == ["a", "b", "c"]


def test_fields_that_are_unknown_missing_or_null_do_not_matter() -> None:
    app = {
        **APP,
        "newer": {"than": "we"},
        "diagnostics": None,
        "allocatedMB": -1,
        "progress": "NaN",
        "state": "DREAMING",
    }
    with serving(Answer({"app": app, "more": 1})) as rm:
        found = client(rm.url).app(ID)
    assert (found.state, found.diagnostics, found.memory_mib, found.progress_pct) == ("DREAMING", "", 0, 0.0)
    assert (found.final_status, found.tags, found.has_ended) == ("UNDEFINED", (), False)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"app": {**APP, "startedTime": "soon"}}, "app.startedTime: expected a number, got 'soon'"),
        ({"app": {**APP, "startedTime": True}}, "app.startedTime: expected a number, got True"),
        ({"app": {**APP, "startedTime": 1e300}}, "app.startedTime: expected a number"),
        ({"app": {**APP, "name": ["a"]}}, "app.name: expected a text, got"),
        ({"app": {"id": ID}}, "app has no state"),
        ({"app": [APP]}, "app: expected an object, got"),
        ({}, "app has no id"),
        ([], "expected an object, got []"),
        (b"<html><body>It works!</body></html>", "no JSON but '<html><body>It works!"),
        (b"\xff\xfe{", "no JSON"),
        (b"[" * 100_000, "no JSON"),
        (b'{"app": ' + b"1" * 5000 + b"}", "no JSON"),
    ],
)
def test_an_answer_of_another_form_is_an_error_that_names_the_field(answer: object, words: str) -> None:
    with serving(Answer(answer)) as rm, pytest.raises(YarnBadAnswer) as caught:
        client(rm.url).app(ID)
    assert words in str(caught.value)
    assert str(caught.value).startswith(f"{rm.url}/ws/v1/cluster/apps/{ID}") or str(caught.value).startswith("app has")


@pytest.mark.parametrize(
    ("answer", "kind", "words"),
    [
        (exception("java.lang.Exception: app with id: x not found", 404), YarnNotFound, "app with id: x not found"),
        (exception("org.a.B: java.lang.C: Requested more", 400, "Bad"), YarnRefused, "java.lang.C: Requested more"),
        (exception("not allowed", 403, "ForbiddenException"), YarnDenied, "not allowed"),
        (Answer(b"<html>", 401), YarnDenied, "answers 401: say who you are"),
        (Answer(b"<html>", 404), YarnNotFound, "is this a ResourceManager?"),
        (Answer(b"", 500), YarnBadAnswer, "answers 500"),
    ],
)
def test_a_refusal_says_what_the_server_said(answer: Answer, kind: type[Exception], words: str) -> None:
    with serving(answer) as rm, pytest.raises(kind) as caught:
        client(rm.url).app(ID)
    assert words in str(caught.value)
    assert type(caught.value) is kind


@pytest.mark.parametrize("standby", [STANDBY, NO_ACTIVE, Answer(b"", 503)])
def test_one_that_is_not_active_is_passed_over_and_asked_last_from_then_on(standby: Answer) -> None:
    with serving(standby) as first, serving(Answer({"apps": {}})) as second:
        yarn = client(first.url, second.url)
        assert yarn.apps() == yarn.apps() == ()
        assert (len(first.asked), len(second.asked)) == (1, 2)


def test_a_failover_is_waited_for_while_one_is_on_standby() -> None:
    with serving(STANDBY, STANDBY, Answer({"apps": {}})) as rm:
        assert client(rm.url, failover_s=20).apps() == ()


def test_where_none_is_active_each_is_named() -> None:
    with serving(STANDBY) as first, serving(NO_ACTIVE) as second, pytest.raises(YarnUnreachable) as caught:
        client(first.url, second.url).apps()
    said = str(caught.value)
    assert f"{first.url} is on standby, and names 'http://rm2:8088/ws/v1/cluster/info'" in said
    assert f"{second.url} is on standby, and knows of no active one" in said


def test_a_server_that_is_down_is_unreachable_at_once_and_the_next_one_is_asked() -> None:
    with socket.create_server(("127.0.0.1", 0)) as held:
        down = f"http://127.0.0.1:{held.getsockname()[1]}"
    with pytest.raises(YarnUnreachable, match="refused"):
        client(down, failover_s=60).info()
    with serving(Answer(INFO)) as rm:
        assert client(down, rm.url).info().id == 7


@pytest.mark.parametrize("slow", [Answer(hangs=True), Answer(b"{" * 9999, trickles=True)])
def test_a_slow_server_is_given_up(slow: Answer) -> None:
    with serving(slow) as rm, pytest.raises(YarnUnreachable, match=r"no whole answer within 0\.3 s"):
        client(rm.url, timeout_s=0.3).info()


def test_an_answer_that_breaks_off_is_none() -> None:
    with serving(Answer(INFO, lacks=5)) as rm, pytest.raises(YarnUnreachable, match="IncompleteRead"):
        client(rm.url).info()


def test_a_huge_listing_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gosched.integrations.yarn.client.MAX_BYTES", 100_000)
    with (
        serving(Answer({"apps": {"app": [APP] * 5000}})) as rm,
        pytest.raises(YarnBadAnswer, match="larger than 97 KiB: ask for less"),
    ):
        client(rm.url).apps()


def test_what_speaks_no_http_is_said() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(30)
        url = f"http://127.0.0.1:{server.getsockname()[1]}"

        async def both() -> None:
            call = asyncio.create_task(AsyncYarnClient([url], timeout_s=20, failover_s=0).info())
            line, _ = await asyncio.to_thread(server.accept)
            line.sendall(b"SSH-2.0-OpenSSH\r\n")
            line.close()
            await call

        with pytest.raises(YarnUnreachable, match="SSH"):
            asyncio.run(both())


def test_certificates_are_checked(tmp_path: Path) -> None:
    ours, other = authority(tmp_path / "ours"), authority(tmp_path / "other")
    files = issued(ours, "master", "rm", "127.0.0.1")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(files.cert, files.key)
    with serving(Answer(INFO), tls=tls) as rm:
        assert client(rm.url, ca=files.ca).info().id == 7
        for ca in (str(other / "ca.pem"), None):
            with pytest.raises(YarnUnreachable, match="its certificate is not trusted"):
                client(rm.url, ca=ca).info()
    with pytest.raises(YarnMisused, match="cannot be read as certificates"):
        client("https://rm", ca=str(tmp_path / "none"))


@pytest.mark.parametrize(
    "url", ["", "ftp://rm", "http://rm:http", "http://rm/cluster", "http://", "http://a@rm", "rm:99999"]
)
def test_an_address_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(YarnMisused, match="no address of a ResourceManager"):
        client(url)


def test_without_an_address_or_with_a_wrong_id_nothing_is_asked() -> None:
    with pytest.raises(YarnMisused, match="no ResourceManager is named"):
        client()
    with pytest.raises(YarnMisused, match="no id of an application"):
        client("rm:8088").app("../../conf")


def test_the_user_and_the_filters_are_in_the_query() -> None:
    with serving(Answer({"apps": {}})) as rm:
        client(rm.url, user="a&b").apps(states=["RUNNING", "ACCEPTED"], queue="x", limit=3)
    assert rm.asked[0][1] == "/ws/v1/cluster/apps?states=RUNNING%2CACCEPTED&queue=x&limit=3&user.name=a%26b"


def test_a_challenge_is_answered_once_with_what_the_caller_has_for_the_host() -> None:
    challenge = Answer(b"", 401, {"WWW-Authenticate": "Negotiate"})
    with serving(challenge, Answer(INFO)) as rm:
        assert client(rm.url, authorize=lambda host: f"Negotiate for-{host}").info().id == 7
    assert [asked[3].get("Authorization") for asked in rm.asked] == [None, "Negotiate for-127.0.0.1"]
    with serving(challenge) as rm, pytest.raises(YarnDenied):
        client(rm.url, authorize=lambda host: "Negotiate bad").info()
    assert len(rm.asked) == 2


def test_only_a_challenge_for_a_ticket_is_answered_with_one() -> None:
    basic = Answer(b"", 401, {"WWW-Authenticate": 'Basic realm="a"'})
    with serving(basic) as rm, pytest.raises(YarnDenied, match="answers 401"):
        client(rm.url, authorize=lambda host: "Negotiate never").info()
    assert len(rm.asked) == 1
    names = ("WWW-Authenticate", "www-authenticate", "Www-Authenticate")
    either = Answer(b"", 401, dict(zip(names, ('Basic realm="a"', "Negotiate", "Digest"), strict=True)))
    with serving(either, Answer(INFO)) as rm:
        assert client(rm.url, authorize=lambda host: "Negotiate x").info().id == 7


def test_a_node_that_asks_for_a_ticket_shows_its_log_for_one() -> None:
    challenge = Answer(b"", 401, {"WWW-Authenticate": "Negotiate"})
    with serving(challenge, Answer(b"said")) as node:
        app = {**APP, "amContainerLogs": f"{node.url}/node/containerlogs/container_1/ann"}
        with serving(Answer({"app": app})) as rm:
            yarn = client(rm.url, authorize=lambda host: f"Negotiate for-{host}")
            assert yarn.log(yarn.app(ID)) == b"said"
    assert [asked[3].get("Authorization") for asked in node.asked] == [None, "Negotiate for-127.0.0.1"]


def test_a_loop_goes_on_while_a_ticket_is_got() -> None:
    challenge = Answer(b"", 401, {"WWW-Authenticate": "Negotiate"})
    asked, goes_on = threading.Event(), threading.Event()

    def authorize(_host: str) -> str:
        asked.set()
        assert goes_on.wait(20), "the loop stands still"
        return "Negotiate x"

    async def both(url: str) -> int:
        call = asyncio.create_task(AsyncYarnClient([url], authorize=authorize).info())
        assert await asyncio.to_thread(asked.wait, 20)
        goes_on.set()
        return (await call).id

    with serving(challenge, Answer(INFO)) as rm:
        assert asyncio.run(both(rm.url)) == 7


def test_a_kill_is_repeated_until_the_application_has_ended() -> None:
    states = [Answer({"state": state}, 202) for state in ("RUNNING", "KILLING")]
    with serving(*states, Answer({"state": "KILLED"})) as rm:
        assert client(rm.url).kill(ID) == "KILLED"
    assert [(method, json.loads(body)) for method, _, body, _ in rm.asked] == [("PUT", {"state": "KILLED"})] * 3


def test_a_kill_that_takes_too_long_is_said() -> None:
    with serving(Answer({"state": "KILLING"}, 202)) as rm, pytest.raises(YarnTimedOut, match="is KILLING 0 s after"):
        client(rm.url).kill(ID, timeout_s=0)


def test_a_submission_is_written_as_yarn_reads_it() -> None:
    file = LocalResource(name="app.jar", url="hdfs://n/app.jar", size_bytes=3, modified_ms=4)
    wanted = Submission(
        id=ID, name="n", command="run", environment=(("A", "b"),), local_resources=(file,), tags=("t",), priority=2
    )
    with serving(Answer(b"", 202)) as rm:
        client(rm.url).submit(wanted)
    method, path, body, headers = rm.asked[0]
    assert (method, path, headers["Content-Type"]) == ("POST", "/ws/v1/cluster/apps", "application/json")
    sent = json.loads(body)
    assert sent["application-id"] == ID
    assert (sent["priority"], sent["application-tags"], sent["max-app-attempts"]) == (2, {"tag": ["t"]}, 1)
    container = sent["am-container-spec"]
    assert container["environment"] == {"entry": [{"key": "A", "value": "b"}]}
    assert container["local-resources"]["entry"][0]["value"]["timestamp"] == 4


def test_the_client_for_asyncio_has_the_same_methods_and_answers() -> None:
    def methods(kind: type) -> dict[str, inspect.Signature]:
        return {name: inspect.signature(of) for name, of in vars(kind).items() if not name.startswith("_")}

    assert methods(YarnClient) == methods(AsyncYarnClient)

    async def all_of(yarn: AsyncYarnClient) -> tuple[object, ...]:
        return await yarn.apps(), await yarn.kill(ID), await yarn.info()

    answers = (Answer({"apps": {"app": APP}}), Answer({"state": "KILLING"}), Answer({"state": "KILLED"}), Answer(INFO))
    with serving(STANDBY) as first, serving(*answers) as second:
        apps, state, info = asyncio.run(all_of(AsyncYarnClient([first.url, second.url], failover_s=0)))
    with serving(*answers) as rm:
        yarn = client(rm.url)
        assert (apps, state, info) == (yarn.apps(), yarn.kill(ID), yarn.info())


def test_a_tree_of_queues_is_read_to_a_depth_and_no_further() -> None:
    tree: dict[str, object] = {"queueName": "leaf"}
    for _ in range(200):
        tree = {"queueName": "q", "queues": {"queue": tree}}
    with serving(Answer({"scheduler": {"schedulerInfo": {**tree, "type": "capacityScheduler"}}})) as rm:
        assert len(client(rm.url).scheduler().root.all()) == 65


def test_a_node_by_https_is_asked_though_the_resource_manager_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        threading.Thread(target=lambda: server.accept()[0].close(), daemon=True).start()
        line = Line(["http://127.0.0.1:1"], authorize=None, ca=None, timeout_s=5.0)
        answer = line.exchange(Exchange(f"https://127.0.0.1:{server.getsockname()[1]}/", "GET", {}, None))
    assert isinstance(answer, Unreachable)
