"""A real YARN that asks for Kerberos, and a real KDC. Needs Java 17, Maven, MIT's KDC, and the extra `kerberos`."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from gosched.integrations.yarn import AsyncYarnClient, Submission, YarnClient, YarnDenied, YarnNotFound, negotiate

from .containers import needs
from .hadoop import HADOOP, Yarn
from .kerberos import OTHER, REALM, Kerberos
from .support import goschedctl, until

QUEUES = Path(__file__).parents[1] / "integrations/yarn/capacity-scheduler.xml"


@pytest.fixture(scope="module")
def kerberos(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kerberos]:
    with Kerberos(tmp_path_factory.mktemp("kerberos") / "kdc") as kerberos:
        yield kerberos


@pytest.fixture(scope="module")
def keytab(kerberos: Kerberos) -> Path:
    return kerberos.keytab("ann")


@pytest.fixture(scope="module")
def yarn(kerberos: Kerberos, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    """Kerberos over RPC and HTTP."""
    needs("java")
    folder = tmp_path_factory.mktemp("yarn")
    with Yarn(folder, scheduler_xml=QUEUES.read_text(), managers=["rm1"], kerberos=kerberos) as yarn:
        yield yarn


class Account:
    """What tickets this process and those that it starts have."""

    def __init__(self, kerberos: Kerberos, monkeypatch: pytest.MonkeyPatch) -> None:
        self.kerberos = kerberos
        self._monkeypatch = monkeypatch

    def nothing(self) -> None:
        self._set(self.kerberos.env())

    def login(self, keytab: Path, *, realm: str = REALM, life: str = "1h") -> None:
        self._set(self.kerberos.login("ann", keytab, realm=realm, life=life))

    def client_keytab(self, keytab: Path) -> None:
        self._set({**self.kerberos.env("of-keytab"), "KRB5_CLIENT_KTNAME": str(keytab)})

    def _set(self, env: dict[str, str]) -> None:
        for name, value in env.items():
            self._monkeypatch.setenv(name, value)


@pytest.fixture
def account(kerberos: Kerberos, monkeypatch: pytest.MonkeyPatch) -> Account:
    account = Account(kerberos, monkeypatch)
    account.nothing()
    return account


def ctl(yarn: Yarn, *words: str) -> subprocess.CompletedProcess[str]:
    return goschedctl("", "yarn", "--rm", yarn.url("rm1"), *words)


def test_who_asks_is_who_the_ticket_names(yarn: Yarn, account: Account, keytab: Path) -> None:
    account.login(keytab)
    client = YarnClient([yarn.url("rm1")], user="ben", authorize=negotiate)
    info = client.info()
    assert (info.version, info.ha_state) == (HADOOP, "ACTIVE")
    id = client.new_application().id
    client.submit(Submission(id=id, name="kerberos", command="sleep 600", memory_mib=128))
    until(lambda: client.app(id).containers, "it runs")
    assert client.app(id).user == "ann"
    assert client.kill(id) == "KILLED"
    with pytest.raises(YarnDenied, match="answers 401"):
        YarnClient([yarn.url("rm1")], user="ann").info()


def test_the_client_for_asyncio_has_tickets_too(yarn: Yarn, account: Account, keytab: Path) -> None:
    account.login(keytab)

    async def asked() -> tuple[str, str]:
        client = AsyncYarnClient([yarn.url("rm1")], authorize=negotiate)
        infos = await asyncio.gather(*(client.info() for _ in range(8)))
        assert len(set(infos)) == 1
        id = (await client.new_application()).id
        await client.submit(Submission(id=id, name="async", command="sleep 600", memory_mib=128))
        return (await client.app(id)).user, await client.kill(id)

    assert asyncio.run(asked()) == ("ann", "KILLED")


def test_the_command_line_has_the_ticket_of_kinit(yarn: Yarn, account: Account, keytab: Path) -> None:
    account.login(keytab)
    assert f"Release    {HADOOP}" in ctl(yarn, "info").stdout
    id = ctl(yarn, "submit", "--memory", "128Mi", "--", "sleep", "600").stdout.strip()
    assert ctl(yarn, "kill", id).returncode == 0
    found = json.loads(ctl(yarn, "app", id, "-o", "json").stdout)
    assert (found["user"], found["state"]) == ("ann", "KILLED")


def test_a_keytab_does_for_a_ticket(yarn: Yarn, account: Account, keytab: Path) -> None:
    account.client_keytab(keytab)
    assert f"Release    {HADOOP}" in ctl(yarn, "info").stdout
    account.client_keytab(keytab.with_name("missing"))
    Path(account.kerberos.env("of-keytab")["KRB5CCNAME"]).unlink()
    done = ctl(yarn, "info")
    assert done.returncode == 4
    assert f"and there is no ticket with KRB5_CLIENT_KTNAME={keytab.with_name('missing')}: kinit" in done.stderr


def test_without_a_ticket_it_is_said_how_to_get_one(yarn: Yarn, account: Account) -> None:
    done = ctl(yarn, "info")
    assert done.returncode == 4
    assert "localhost asks for Kerberos, and there is no ticket: kinit gets one" in done.stderr


def test_an_expired_ticket_is_called_so(yarn: Yarn, account: Account, keytab: Path) -> None:
    account.login(keytab, life="1s")
    until(lambda: ctl(yarn, "info").returncode, "it has expired")
    done = ctl(yarn, "info")
    assert done.returncode == 4
    assert "there is no ticket for HTTP/localhost: Ticket expired (klist shows the tickets, kinit" in done.stderr


def test_a_ticket_of_another_realm_names_both(yarn: Yarn, account: Account) -> None:
    account.login(account.kerberos.keytab("ann", realm=OTHER), realm=OTHER)
    done = ctl(yarn, "info")
    assert done.returncode == 4
    assert f"Server krbtgt/{REALM}@{OTHER} not found in Kerberos database" in done.stderr


def test_a_job_of_yarn_has_its_logs_from_a_node_that_asks_for_a_ticket_too(
    kerberos: Kerberos, account: Account, keytab: Path, tmp_path: Path
) -> None:
    account.login(keytab)
    with Yarn(tmp_path, scheduler_xml=QUEUES.read_text(), managers=["rm1"], kerberos=kerberos, open_rpc=True) as yarn:
        done = ctl(yarn, "run", "--memory", "128Mi", "echo from $USER; exit 7")
        assert (done.returncode, done.stdout) == (7, "from ann\n"), done.stderr
        (app,) = YarnClient([yarn.url("rm1")], authorize=negotiate).apps()
        with pytest.raises(YarnDenied):
            YarnClient([yarn.url("rm1")]).log(app)
        with pytest.raises(YarnNotFound):
            YarnClient([yarn.url("rm1")], authorize=negotiate).log(app, "nothing")
