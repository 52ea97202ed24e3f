"""Real Kerberos for the tests: a KDC on loopback, in a folder of its own, of two realms that do not know each other."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from tests.ports import HeldPort

from .support import until

REALM, OTHER = "GOSCHED.TEST", "OTHER.TEST"
_PROGRAMS = (KDC, UTIL, ADMIN, KINIT) = (
    "/usr/sbin/krb5kdc",
    "/usr/sbin/kdb5_util",
    "/usr/sbin/kadmin.local",
    "/usr/bin/kinit",
)

_CLIENT = """[libdefaults]
default_realm = {realm}
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1
[realms]
{realms}
"""
_SERVER = """[kdcdefaults]
kdc_listen = ""
[realms]
{realms}
[logging]
kdc = FILE:{folder}/kdc.log
"""


class Kerberos:
    """`with Kerberos(folder) as kerberos:` has started it. Who knows `env` is a client of it, without a ticket."""

    def __init__(self, folder: Path) -> None:
        missing = [program for program in _PROGRAMS if not Path(program).exists()]
        assert not missing, f"apt-get install krb5-kdc krb5-admin-server krb5-user: no {', '.join(missing)}"
        folder.mkdir(parents=True)
        self.folder = folder
        self._ports = {realm: HeldPort() for realm in (REALM, OTHER)}
        self.config = folder / "krb5.conf"
        realms = "\n".join(f"{realm} = {{\n kdc = {port.address}\n}}" for realm, port in self._ports.items())
        self.config.write_text(_CLIENT.format(realm=REALM, realms=realms))
        served = "\n".join(
            f"{realm} = {{\n kdc_tcp_listen = {port.address}\n database_name = {folder}/{realm}\n"
            f" key_stash_file = {folder}/{realm}.key\n max_life = 1h\n}}"
            for realm, port in self._ports.items()
        )
        (folder / "kdc.conf").write_text(_SERVER.format(realms=served, folder=folder))
        self._kdc: subprocess.Popen[bytes] | None = None

    def env(self, cache: str = "none") -> dict[str, str]:
        """Return what makes a program a client with the tickets of `cache`."""
        return {"KRB5_CONFIG": str(self.config), "KRB5CCNAME": f"{self.folder / cache}.tickets"}

    def __enter__(self) -> Kerberos:
        for realm in self._ports:
            self._run(UTIL, "-r", realm, "create", "-s", "-P", secrets.token_hex())
        words = [KDC, "-n", *(word for realm in self._ports for word in ("-r", realm))]
        with (self.folder / "krb5kdc.out").open("wb") as log:
            self._kdc = subprocess.Popen(words, env=self._all(), stdout=log, stderr=log, stdin=subprocess.DEVNULL)
        until(lambda: "commencing operation" in self._log(), "the KDC is there")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._kdc is not None
        self._kdc.kill()
        self._kdc.wait(30)

    def keytab(self, *names: str, realm: str = REALM) -> Path:
        """Return a file with the keys of these, which are new."""
        file = self.folder / f"{_plain(names[0])}.{realm}.keytab"
        for name in names:
            self._run(ADMIN, "-r", realm, "-q", f"addprinc -randkey {name}@{realm}")
            self._run(ADMIN, "-r", realm, "-q", f"ktadd -k {file} {name}@{realm}")
        return file

    def login(self, name: str, keytab: Path, *, realm: str = REALM, life: str = "1h") -> Mapping[str, str]:
        """Get a ticket as a user does; return its `env`."""
        env = self.env(f"{_plain(name)}.{realm}.{life}")
        self._run(KINIT, "-l", life, "-k", "-t", str(keytab), f"{name}@{realm}", env=env)
        return env

    def _run(self, *words: str, env: Mapping[str, str] | None = None) -> None:
        done = subprocess.run(
            words, env=self._all() | dict(env or {}), capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, f"{words}: {done.stderr}"

    def _all(self) -> dict[str, str]:
        return {**os.environ, **self.env(), "KRB5_KDC_PROFILE": str(self.folder / "kdc.conf")}

    def _log(self) -> str:
        assert self._kdc is not None
        assert self._kdc.poll() is None, (self.folder / "krb5kdc.out").read_text()
        file = self.folder / "kdc.log"
        return file.read_text() if file.exists() else ""


def _plain(name: str) -> str:
    return name.replace("/", "-")
