"""Writes the Python code of proto/ into gosched/wire/v1; `--check` fails when what stands there is stale.

Needs grpcio-tools==1.76.0 (its output loads on protobuf 6.31 to 7.x).
"""

import filecmp
import re
import sys
import tempfile
from pathlib import Path

from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "gosched" / "wire" / "v1"


def generate(into: Path) -> list[str]:
    protos = sorted(str(p) for p in (ROOT / "proto" / "gosched" / "v1").glob("*.proto"))
    with tempfile.TemporaryDirectory() as scratch:
        flags = [f"--{kind}_out={scratch}" for kind in ("python", "pyi", "grpc_python")]
        if protoc.main(["protoc", f"-I{ROOT / 'proto'}", *flags, *protos]) != 0:
            raise SystemExit("protoc failed")
        names = []
        for made in sorted((Path(scratch) / "gosched" / "v1").iterdir()):
            text = made.read_text()
            if made.name.endswith("_pb2_grpc.py") and "add_" not in text:
                continue  # a file without services
            # protoc knows one root for all packages; ours live under gosched.wire.
            text = re.sub(r"^from gosched\.v1 import", "from gosched.wire.v1 import", text, flags=re.M)
            (into / made.name).write_text(text)
            names.append(made.name)
    (into / "__init__.py").write_text('"""Generated from proto/ by proto/generate.py."""\n')
    return [*names, "__init__.py"]


def main() -> None:
    if sys.argv[1:] != ["--check"]:
        TARGET.mkdir(exist_ok=True)
        generate(TARGET)
        return
    with tempfile.TemporaryDirectory() as scratch:
        names = generate(Path(scratch))
        _, differing, missing = filecmp.cmpfiles(scratch, TARGET, names, shallow=False)
        extra = [p.name for p in TARGET.iterdir() if p.is_file() and p.name not in names]
        if stale := sorted([*differing, *missing, *extra]):
            raise SystemExit(f"stale generated code, run `make proto`: {', '.join(stale)}")


if __name__ == "__main__":
    main()
