"""Asks the health port of the daemon in this container: `python -m gosched.health [SERVICE]`, a probe without curl.

Exit code 0 where it is SERVING, else 1 and one line. Invariant: it asks this machine alone.
"""

from __future__ import annotations

import os
import sys

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

DEFAULT_ADDR = ":9091"
TIMEOUT_S = 4.0


def main() -> None:
    service = sys.argv[1] if len(sys.argv) > 1 else ""
    port = os.environ.get("GOSCHED_HEALTH_ADDR", DEFAULT_ADDR).rpartition(":")[2]
    if problem := ask(f"127.0.0.1:{port}", service):
        print(f"gosched: {problem}", file=sys.stderr)
        sys.exit(1)


def ask(address: str, service: str) -> str:
    """Return why it is not healthy, or nothing if it is."""
    with grpc.insecure_channel(address, options=[("grpc.enable_http_proxy", 0)]) as channel:
        try:
            answer = health_pb2_grpc.HealthStub(channel).Check(
                health_pb2.HealthCheckRequest(service=service), timeout=TIMEOUT_S
            )
        except grpc.RpcError as error:
            return f"{address} does not answer: {error.details() or error.code().name}"
    if answer.status == health_pb2.HealthCheckResponse.SERVING:
        return ""
    return f"{service or 'this process'} is {health_pb2.HealthCheckResponse.ServingStatus.Name(answer.status)}"


if __name__ == "__main__":
    main()
