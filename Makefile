# gosched: `make help` lists what there is. Everything runs in .venv, which is made from requirements.lock.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Tests start hundreds of daemons: without compiled files the start of each takes a quarter longer.
export PYTHONDONTWRITEBYTECODE :=

VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed

# The first Python on the path that is new enough; PYTHON=... names another.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

.PHONY: help demo test test-tools test-integration test-kubernetes test-gpu test-frameworks test-torchft vm chaos lint format proto bench bench-smoke quality bench-peers lock advisories reference recordings docs dist man deb sbom docker clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' Makefile

# The stamp is newer than what it was made from, or the environment is brought up to date. With a fresh stamp
# nothing touches the network.
$(STAMP): requirements.lock pyproject.toml
	@if [ -z "$(PYTHON)" ] || ! $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then \
		echo "gosched needs Python 3.11 or newer; install one, or name it: make PYTHON=/path/to/python3.12 ..." >&2; exit 1; fi
	@$(PY) -c 'import pip' 2>/dev/null || { rm -rf $(VENV); $(PYTHON) -m venv $(VENV); }
	$(PY) -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(PY) -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

demo: $(STAMP) ## a gang job on 3 masters and 4 agents, whose leader dies meanwhile
	$(PY) tools/demo.py

test: $(STAMP) ## every test that needs no root and no other service
	$(PY) -m pytest -q -n 3 --dist loadfile tests --ignore=tests/integration --ignore=tests/chaos --ignore=tests/vm --ignore=tests/systemd \
		--ignore=tests/kubernetes --ignore=tests/gpu --ignore=tests/frameworks

# What is slow to make when it is new is made before the tests, whose times are bounded; what cannot be made fails its tests.
test-tools: $(STAMP)
	tools/integration_tools.sh
	-tools/image_base.sh
	-tools/docker_compose.sh
	-tools/otel_collector.sh
	-tools/oidc_issuer.sh
	-$(PY) -m tools.kubernetes build

test-integration: test-tools ## whole clusters of real processes on loopback; cgroups in a virtual machine, containers, Spark
	$(PY) -m pytest -q -n 2 --dist loadfile tests/integration

test-kubernetes: test-tools ## the chart on a real Kubernetes, with real pods; as root on Debian
	$(PY) -m pytest -q tests/kubernetes

vm: $(STAMP) ## the agent's tests on pure cgroup v2, in a virtual machine
	tools/integration_tools.sh
	$(PY) -m pytest -q tests/integration/test_vm.py

test-gpu: $(STAMP) ## tasks on this machine's NVIDIA GPUs; as root, with cgroup v2, nvidia-smi and torchrun
	$(PY) -m pytest -q tests/gpu

test-frameworks: $(STAMP) ## PyTorch, MPI and Ray as gangs under faults, with a table of figures; as root on Debian
	tools/frameworks.sh debian
	tools/frameworks.sh ray
	$(PY) -m tests.frameworks --ignore=tests/frameworks/test_torchft.py

test-torchft: $(STAMP) ## the same for torchft and PyTorch 2, which take 6 GB
	tools/frameworks.sh torchft
	$(PY) -m tests.frameworks -k test_torchft

chaos: $(STAMP) ## failover storms, sick disks and clocks on hosts of their own, and the seeds of the simulator
	tools/integration_tools.sh
	$(PY) -m pytest -q tests/chaos

lint: $(STAMP) ## style, types, layers, and whether generated code and pages are up to date
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(VENV)/bin/lint-imports
	$(PY) proto/generate.py --check
	$(PY) -m tools.docs --check

format: $(STAMP) ## rewrite the sources in the one style
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

proto: $(STAMP) ## generate gosched/wire/v1 from proto/
	$(PY) proto/generate.py

BENCHMARKS := $(filter-out __init__ report pairs,$(basename $(notdir $(wildcard benchmarks/*.py))))

bench: $(STAMP) ## measure; the figures go to benchmarks/results.json
	for name in $(BENCHMARKS); do $(PY) -m benchmarks.$$name; done

bench-smoke: $(STAMP) ## run each benchmark once, small: do they still work?
	for name in $(BENCHMARKS); do $(PY) -m benchmarks.$$name --smoke; done

quality: $(STAMP) ## print how well the planner does on drawn mixes: work, waits, shares (10 minutes); SEEDS=7,8,9 are others
	$(PY) -m benchmarks.mixes $(if $(SEEDS),--seeds $(SEEDS))

bench-peers: $(STAMP) ## the same through a real Slurm and a real kube-scheduler; as root, with slurm-wlm and munge
	$(PY) -m benchmarks.peers.slurm
	$(PY) -m benchmarks.peers.kube

# For every Python from 3.11 on and every platform, with the hashes of all files; and of that the part which each kind of
# installation needs. Needs the network.
COMPILE := pip compile pyproject.toml --universal --python-version 3.11 --generate-hashes --no-header \
	--no-emit-find-links --no-emit-index-url --no-annotate --quiet
lock: ## resolve pyproject.toml anew into requirements.lock and requirements/
	@scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
	$(PYTHON) -m venv "$$scratch" && "$$scratch/bin/pip" install --quiet --disable-pip-version-check uv && \
	uv="$$scratch/bin/uv" && \
	"$$uv" $(COMPILE) --extra dev --upgrade -o requirements.lock && \
	"$$uv" $(COMPILE) --constraint requirements.lock -o requirements/client.lock && \
	for extra in master agent; do \
		"$$uv" $(COMPILE) --constraint requirements.lock --extra $$extra --extra archive --extra otel -o requirements/$$extra.lock; done && \
	"$$uv" $(COMPILE) --constraint requirements.lock --extra kubernetes -o requirements/kubernetes.lock

# `--strict`: without it pip-audit passes what it could not ask about. Needs pypi.org itself, so it is no part of .ci/run.
advisories: ## whether a vulnerability is known of what the locks name; fails where that cannot be asked
	@scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; \
	$(PYTHON) -m venv "$$scratch" && "$$scratch/bin/pip" install --quiet --disable-pip-version-check pip-audit==2.10.1 && \
	"$$scratch/bin/pip-audit" --strict --disable-pip --require-hashes --requirement requirements.lock

reference: $(STAMP) ## make docs/reference from the code
	$(PY) -m tools.docs

recordings: $(STAMP) ## record the README's picture and the tour of the terminal anew, on local clusters
	$(PY) -m tools.docs.recording docs/images/demo.svg --as "make demo" -- $(PY) tools/demo.py
	$(PY) -m tools.docs.record

# From nothing, so that a page that is gone leaves nothing behind; warnings are errors, and links to nowhere are warnings.
docs: $(STAMP) ## the site, in build/docs; every link is checked
	rm -rf build/docs
	$(VENV)/bin/sphinx-build -b html -d build/doctrees -E -W --keep-going -n -q docs build/docs
	$(PY) -m tools.docs.links build/docs

# The time of the newest commit: the same sources give the same bytes, whenever they are built.
dist man deb: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null)

dist: $(STAMP) ## wheel and sdist, in dist/
	$(PY) -m hatchling build -d dist

man: $(STAMP) ## the manual pages, in build/man
	$(PY) tools/man.py build/man

deb: $(STAMP) ## a package for Debian, in dist/
	tools/deb.sh $(PY)

# CycloneDX, of each lock: what comes with the wheel (client) and what is in the images.
sbom: $(STAMP) ## the parts lists of wheel and images, in build/sbom
	@scratch=$$(mktemp -d); trap 'rm -rf "$$scratch"' EXIT; mkdir -p build/sbom && \
	$(PYTHON) -m venv "$$scratch" && "$$scratch/bin/pip" install --quiet --disable-pip-version-check cyclonedx-bom==7.5.0 && \
	version=$$($(PY) -c 'import gosched; print(gosched.__version__)') && \
	sed "s/^dynamic = .*/version = \"$$version\"/" pyproject.toml >"$$scratch/pyproject.toml" && \
	for kind in client master agent kubernetes; do \
		"$$scratch/bin/python" -W ignore "$$scratch/bin/cyclonedx-py" requirements --pyproject "$$scratch/pyproject.toml" \
			--output-reproducible -o build/sbom/gosched-$$kind.cdx.json requirements/$$kind.lock; done

# BASE=... names another base than the Dockerfile does, DOCKER_BUILD_FLAGS=... is for `docker build`.
DOCKER ?= docker
docker: ## build the images gosched-master:dev, gosched-agent:dev, goschedctl:dev and gosched-kube:dev
	@version=$$(sed -n 's/^__version__ = "\(.*\)"/\1/p' gosched/__init__.py); \
	revision=$$(git rev-parse HEAD 2>/dev/null || echo unknown); \
	for image in master:gosched-master ctl:goschedctl kube:gosched-kube agent:gosched-agent; do \
		$(DOCKER) build $(DOCKER_BUILD_FLAGS) $(if $(BASE),--build-arg BASE=$(BASE)) --build-arg VERSION=$$version \
			--build-arg REVISION=$$revision --target $${image%:*} --tag $${image#*:}:dev . || exit 1; done

clean: ## remove the environment and the caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache build dist
