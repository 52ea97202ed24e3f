"""Where the API server is, and what it is shown: from a kubeconfig, or from the service account of a pod.

Invariant: no program of a kubeconfig is run, and what it asks for and is not done here is refused by name, not left
out.
"""

from __future__ import annotations

import base64
import binascii
import os
import ssl
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gosched.config.errors import shown
from gosched.config.files import read_file
from gosched.config.tree import read_documents
from gosched.integrations.pods.errors import PodMisused
from gosched.wire.http_exchange import server_address
from gosched.wire.tls_files import words_of
from gosched.wire.tls_rules import trusting

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")
_IN_CLUSTER = "https://kubernetes.default.svc"
_OF_CLUSTERS = frozenset({"server", "certificate-authority", "certificate-authority-data", "extensions"})
_OF_USERS = frozenset(
    {
        "client-certificate",
        "client-certificate-data",
        "client-key",
        "client-key-data",
        "token",
        "tokenFile",
        "extensions",
    }
)
_ADVICE = "use a token of a service account (kubectl create token) or a client certificate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Access:
    """One API server, and who asks it."""

    url: str
    #: None: it talks plain HTTP.
    trust: ssl.SSLContext | None
    #: Where pods are unless somebody says otherwise.
    namespace: str
    #: Returns the token, read anew: a service account's is replaced every hour. Empty: there is none.
    token: Callable[[], str] = field(repr=False)


def find_access(kubeconfig: str, context: str) -> Access:
    """Return what a kubeconfig says; without one, that of $KUBECONFIG, of this pod's service account, or of the home
    directory. Raises PodMisused, ConfigError."""
    named = kubeconfig or os.environ.get("KUBECONFIG", "")
    if named:
        return from_kubeconfig(named, context)
    if not context and (SERVICE_ACCOUNT / "token").exists():
        return _of_this_pod()
    home = Path.home() / ".kube" / "config"
    if home.exists():
        return from_kubeconfig(str(home), context)
    raise PodMisused(f"no API server is named: give --kubeconfig FILE or set KUBECONFIG; there is no {home} either")


def from_kubeconfig(file: str, context: str) -> Access:
    """Return what a context of a kubeconfig says; empty: its current one. Raises PodMisused, ConfigError."""
    if os.pathsep in file:
        raise PodMisused(f"{file}: several kubeconfigs are not merged here: name one file")
    documents = read_documents(read_file(file, what="kubeconfig"), file)
    if len(documents) != 1 or not isinstance(documents[0].value, dict):
        raise PodMisused(f"{file}: expected one kubeconfig")
    config = documents[0].value
    name = context or config.get("current-context")
    if not name:
        raise PodMisused(f"{file}: it has no current-context: name one with --context")
    chosen = _named(config, "contexts", "context", name, file)
    cluster = _named(config, "clusters", "cluster", chosen.get("cluster"), file)
    user = _named(config, "users", "user", chosen["user"], file) if chosen.get("user") else {}
    _refuse_others(cluster, _OF_CLUSTERS, f"{file}: cluster {chosen.get('cluster')}", "it is not supported here")
    _refuse_others(user, _OF_USERS, f"{file}: user {chosen.get('user')}", f"it is not supported here: {_ADVICE}")
    folder = Path(file).absolute().parent
    url = _checked(cluster.get("server"), file)
    return Access(
        url=url,
        trust=_trust(cluster, user, folder, file) if url.startswith("https") else None,
        namespace=_text(chosen, "namespace", file) or "default",
        token=_token(user, folder, file),
    )


def _of_this_pod() -> Access:
    file = SERVICE_ACCOUNT / "namespace"
    # Tasks have no variables of the agent's own pod, and the name is the same in every cluster.
    host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
    address = f"https://[{host}]:{port}" if host and ":" in host else f"https://{host}:{port}"
    try:
        trust = trusting(ssl.Purpose.SERVER_AUTH, str(SERVICE_ACCOUNT / "ca.crt"))
    except OSError as error:
        raise PodMisused(f"{SERVICE_ACCOUNT / 'ca.crt'}: {words_of(error)}") from error
    namespace = file.read_text().strip() if file.exists() else "default"
    url = address if host else _IN_CLUSTER
    return Access(url=url, trust=trust, namespace=namespace, token=lambda: _read_token(SERVICE_ACCOUNT / "token"))


def _named(config: dict[str, Any], plural: str, key: str, name: object, file: str) -> dict[str, Any]:
    listed = config.get(plural)
    for entry in listed if isinstance(listed, list) else ():
        if isinstance(entry, dict) and entry.get("name") == name:
            found = entry.get(key) or {}
            if not isinstance(found, dict):
                raise PodMisused(f"{file}: {key} {shown(name)}: expected keys and values, got {shown(found)}")
            return found
    raise PodMisused(f"{file}: it has no {key} of the name {shown(name)}")


def _refuse_others(found: dict[str, Any], known: frozenset[str], where: str, why: str) -> None:
    for key, value in found.items():
        if key not in known and value not in (None, "", False, []):
            raise PodMisused(f"{where}: {key}: {why}")


def _checked(server: object, file: str) -> str:
    found = server_address(server) if isinstance(server, str) and "://" in server else None
    if found is None:
        raise PodMisused(f"{file}: {shown(server)} is no address of an API server: expected https://HOST:6443")
    return found


def _text(found: dict[str, Any], key: str, file: str) -> str:
    value = found.get(key)
    if value is not None and not isinstance(value, str):
        raise PodMisused(f"{file}: {key}: expected a text, got {shown(value)}")
    return value or ""


def _content(found: dict[str, Any], key: str, folder: Path, file: str) -> bytes:
    """Return what stands in `KEY-data`, or in the file that `KEY` names; empty: neither is given."""
    if inline := _text(found, f"{key}-data", file):
        try:
            return base64.b64decode(inline, validate=True)
        except (ValueError, binascii.Error):
            raise PodMisused(f"{file}: {key}-data: it is no base64") from None
    path = _text(found, key, file)
    return read_file(str(folder / path), what=key) if path else b""


def _trust(cluster: dict[str, Any], user: dict[str, Any], folder: Path, file: str) -> ssl.SSLContext:
    authority = _content(cluster, "certificate-authority", folder, file)
    certificate = _content(user, "client-certificate", folder, file)
    key = _content(user, "client-key", folder, file)
    if bool(certificate) != bool(key):
        raise PodMisused(f"{file}: client-certificate and client-key come together")
    try:
        trust = trusting(ssl.Purpose.SERVER_AUTH, None, pem=authority.decode() if authority else None)
        if certificate:
            # `ssl` reads files alone; this one is ours (0600), and gone at once.
            with tempfile.NamedTemporaryFile(prefix="gosched-kube-") as pem:
                pem.write(certificate + b"\n" + key)
                pem.flush()
                trust.load_cert_chain(pem.name, password="")
    except (OSError, ValueError) as error:
        words = words_of(error) if isinstance(error, OSError) else str(error)
        raise PodMisused(f"{file}: its certificates cannot be used: {words}") from error
    return trust


def _token(user: dict[str, Any], folder: Path, file: str) -> Callable[[], str]:
    if path := _text(user, "tokenFile", file):
        return lambda: _read_token(folder / path)
    token = _text(user, "token", file)
    return lambda: token


def _read_token(file: Path) -> str:
    return read_file(str(file), what="token").decode(errors="replace").strip()
