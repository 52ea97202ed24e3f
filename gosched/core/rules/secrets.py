"""What a secret may be called and hold, and how tasks may ask for secrets."""

from __future__ import annotations

from gosched.core.limits import MAX_NAME_LENGTH, MAX_SEALED_LENGTH, MAX_SECRETS_PER_GROUP
from gosched.core.rules.environment import check_not_reserved
from gosched.core.rules.finding import Finding
from gosched.core.rules.values import check_id, check_name
from gosched.core.spec.secret_use import REGISTRY_PREFIX, SecretUse, registry_secret
from gosched.core.spec.task_group import Runtime, TaskGroup

_MAX_PATH = 255


def check_secret(tenant: str, name: str, sealed: str, key_id: str) -> Finding | None:
    """Return the first thing that is wrong with a sealed secret, or None."""
    found = check_name("tenant", tenant) or check_name("secret name", name) or check_name("key id", key_id)
    if found:
        return found
    if not sealed or len(sealed) > MAX_SEALED_LENGTH or not sealed.isascii():
        problem = f"its ciphertext has {len(sealed)} characters; 1 to {MAX_SEALED_LENGTH} are allowed"
        return Finding(subject=f"secret {tenant}/{name}:", problem=problem)
    return None


def check_uses(group: TaskGroup, *, is_strict: bool) -> Finding | None:
    """Return the first thing that is wrong with the secrets of a task group, or None."""
    uses = group.secrets
    if not uses:
        return None
    if not is_strict:
        problem, advice = "this feature level has no secrets", "finalize the upgrade"
        return Finding(path=("secrets",), problem=problem, advice=advice)
    if len(uses) > MAX_SECRETS_PER_GROUP:
        problem = f"{len(uses)} secrets; at most {MAX_SECRETS_PER_GROUP} are allowed"
        return Finding(path=("secrets",), problem=problem)
    taken = dict.fromkeys([("env", name) for name, _ in group.env])
    for place, use in enumerate(uses):
        found = _check_use(use, place) or _check_runtime(use, group.runtime, place)
        if found:
            return found
        target = ("env", use.env) if use.env else ("file", use.file)
        if target in taken:
            problem = f"{target[1]} is given twice"
            return Finding(path=("secrets", place, target[0]), subject=f"secret {use.name}:", problem=problem)
        taken[target] = None
    return _check_no_file_is_a_directory([use.file for use in uses if use.file])


def check_registry(registry: str, *, is_strict: bool) -> Finding | None:
    """Return what is wrong with the name of registry credentials, or None."""
    found = check_id("registry", registry, "registry")
    if found or not is_strict or not registry.startswith(REGISTRY_PREFIX):
        return found
    return check_name("the secret of registry", registry_secret(registry), "registry")


def _check_use(use: SecretUse, place: int) -> Finding | None:
    found = check_name("secret name", use.name, "secrets", place, "name")
    if found:
        return found
    subject = f"secret {use.name}:"
    if bool(use.file) == bool(use.env):
        problem = "it is given as a file or as a variable (env): name one of them"
        return Finding(path=("secrets", place), subject=subject, problem=problem)
    if use.env:
        return _check_variable(use.env, subject, place)
    return _check_file(use.file, subject, place)


def _check_runtime(use: SecretUse, runtime: Runtime, place: int) -> Finding | None:
    """Check that the variable of a secret is written to no disk, as containers' runtimes do with variables."""
    if not use.env or runtime not in (Runtime.ROOTFS, Runtime.DOCKER):
        return None
    return Finding(
        path=("secrets", place, "env"),
        subject=f"secret {use.name}:",
        problem=f"the runtime {runtime.name.lower()} would write the variable {use.env} to a disk",
        advice="take a file instead",
    )


def _check_variable(name: str, subject: str, place: int) -> Finding | None:
    path = ("secrets", place, "env")
    if "=" in name or "\0" in name or not name.isprintable() or len(name) > MAX_NAME_LENGTH:
        problem = f"{name[:MAX_NAME_LENGTH]!a} cannot be the name of an environment variable"
        return Finding(path=path, subject=subject, problem=problem)
    return check_not_reserved(subject, name, *path)


def _check_file(file: str, subject: str, place: int) -> Finding | None:
    parts = file.split("/")
    if len(file) > _MAX_PATH or not file.isprintable() or any(part in ("", ".", "..") for part in parts):
        problem = f"{file[:_MAX_PATH]!a} is no relative path without . and .. and of at most {_MAX_PATH} characters"
        return Finding(path=("secrets", place, "file"), subject=subject, problem=problem)
    return None


def _check_no_file_is_a_directory(files: list[str]) -> Finding | None:
    for file in files:
        above = next((other for other in files if file.startswith(f"{other}/")), "")
        if above:
            problem = f"the file {above} cannot be the directory of {file}, too"
            return Finding(path=("secrets",), subject="secrets:", problem=problem)
    return None
