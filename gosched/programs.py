"""Where the daemons' commands begin, and what is said where the packages that they need are not installed.

Invariant: imports the standard library alone, so that it can be imported whatever is missing.
"""

from __future__ import annotations

import gc
import os
import sys
from importlib import import_module

CANNOT_START = 2
#: Of TLS 1.2 over gRPC, which reads them once from its environment: as in gosched.wire.tls_rules.
GRPC_SUITES = ":".join(
    f"ECDHE-{key}-{cipher}"
    for key in ("ECDSA", "RSA")
    for cipher in ("AES128-GCM-SHA256", "AES256-GCM-SHA384", "CHACHA20-POLY1305")
)

#: What the extras bring, by the names it is imported under.
OF_EXTRAS = frozenset(
    {
        "aiohttp",
        "cloudpickle",
        "docker",
        "fastapi",
        "grpc_health",
        "grpc_reflection",
        "jwt",
        "kubernetes_asyncio",
        "numpy",
        "opentelemetry",
        "prometheus_client",
        "psutil",
        "pynvml",
        "pysyncobj",
        "structlog",
        "uvicorn",
    }
)


def master() -> None:
    _run("gosched-master", "gosched.master.main", "master")


def agent() -> None:
    _run("gosched-agent", "gosched.agent.main", "agent")


def kube() -> None:
    _run("gosched-kube", "gosched.integrations.kubernetes.main", "kubernetes")


def missing_package(error: ModuleNotFoundError, extra: str) -> str:
    """Return a line that says what to install, or nothing if no extra brings what is missing."""
    package = (error.name or "").partition(".")[0]
    if package not in OF_EXTRAS:
        return ""
    return f"{package} is not installed, and this needs it: pip install 'gosched[{extra}]'"


def _run(program: str, module: str, extra: str) -> None:
    os.environ["GRPC_SSL_CIPHER_SUITES"] = GRPC_SUITES
    gc.disable()  # a tenth of the time of these imports: next to nothing of them is garbage
    try:
        main = import_module(module).main
    except ModuleNotFoundError as error:
        if not (line := missing_package(error, extra)):
            raise
        print(f"{program}: {line}", file=sys.stderr)
        sys.exit(CANNOT_START)
    finally:
        gc.enable()
    main()
