# The images of gosched: master, agent, ctl and kube. `make docker` builds them, docs/operations/docker.md says how they run.
#
# BASE is Debian (12 or later) with Python (3.11 or later), its venv and pip; name it with its digest for a release. What
# runs is copied out of it: master, ctl and kube hold the interpreter, the libraries that it loads and gosched, and neither a
# shell nor a package manager.
ARG BASE=python:3.11-slim-bookworm

FROM ${BASE} AS build
# Of all files in the images, so that the same sources make the same layers.
ARG SOURCE_DATE_EPOCH=0
ENV SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH} PYTHONHASHSEED=0 PIP_NO_CACHE_DIR=1 PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /build
COPY requirements.lock ./
# What builds wheels, as the lock has it.
RUN awk '/^[^ ]/ { kept = /^(hatchling|packaging|pathspec|pluggy|setuptools|trove-classifiers)==/ } kept' \
        requirements.lock >tools.lock && \
    python3 -m venv /tools && /tools/bin/pip install --quiet --no-deps --require-hashes --requirement tools.lock
COPY requirements ./requirements
# Wheels of exactly what the locks name, by hash; from here on nothing is fetched.
RUN /tools/bin/pip wheel --quiet --no-deps --no-build-isolation --require-hashes --wheel-dir /wheels \
        --requirement requirements/client.lock --requirement requirements/master.lock --requirement requirements/agent.lock \
        --requirement requirements/kubernetes.lock
COPY tools/image_root.py ./

# Two layers in each image: what gosched needs, which changes with the locks, and gosched.
FROM build AS gosched
COPY pyproject.toml README.md LICENSE ./
COPY gosched ./gosched
RUN /tools/bin/pip wheel --quiet --no-deps --no-index --no-build-isolation --wheel-dir /wheel .

FROM build AS master-base
RUN python3 image_root.py base requirements/master.lock --with-system
FROM master-base AS master-gosched
COPY --from=gosched /wheel /wheel
COPY deploy/docker/gosched.yaml ./
RUN python3 image_root.py gosched --config gosched.yaml

FROM build AS ctl-base
RUN python3 image_root.py base requirements/client.lock --with-system
FROM ctl-base AS ctl-gosched
COPY --from=gosched /wheel /wheel
RUN python3 image_root.py gosched

FROM build AS kube-base
RUN python3 image_root.py base requirements/kubernetes.lock --with-system
FROM kube-base AS kube-gosched
COPY --from=gosched /wheel /wheel
RUN python3 image_root.py gosched

FROM build AS agent-base
RUN python3 image_root.py base requirements/agent.lock
FROM agent-base AS agent-gosched
COPY --from=gosched /wheel /wheel
COPY deploy/docker/agent.yaml ./
RUN python3 image_root.py gosched --config agent.yaml

FROM scratch AS master
COPY --from=master-base /image/ /
COPY --from=master-base --chown=10001:10001 /data/ /var/lib/
COPY --from=master-gosched /gosched/ /
ENV PATH=/opt/gosched/bin:/usr/local/bin:/usr/bin SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt LANG=C.UTF-8 \
    GOSCHED_DATA_DIR=/var/lib/gosched GOSCHED_HEALTH_ADDR=:9091
USER 10001:10001
VOLUME /var/lib/gosched
EXPOSE 9090 8080 7000 9091
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["python", "-m", "gosched.health"]
ENTRYPOINT ["gosched-master", "--config=/etc/gosched/gosched.yaml"]
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title=gosched-master \
    org.opencontainers.image.description="A master of a gosched cluster" \
    org.opencontainers.image.licenses=MIT \
    org.opencontainers.image.version=${VERSION} \
    org.opencontainers.image.revision=${REVISION}

FROM scratch AS ctl
COPY --from=ctl-base /image/ /
COPY --from=ctl-gosched /gosched/ /
ENV PATH=/opt/gosched/bin:/usr/local/bin:/usr/bin SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt LANG=C.UTF-8
USER 10001:10001
ENTRYPOINT ["goschedctl"]
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title=goschedctl \
    org.opencontainers.image.description="The command line of gosched" \
    org.opencontainers.image.licenses=MIT \
    org.opencontainers.image.version=${VERSION} \
    org.opencontainers.image.revision=${REVISION}

FROM scratch AS kube
COPY --from=kube-base /image/ /
COPY --from=kube-gosched /gosched/ /
ENV PATH=/opt/gosched/bin:/usr/local/bin:/usr/bin SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt LANG=C.UTF-8
USER 10001:10001
ENTRYPOINT ["gosched-kube"]
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title=gosched-kube \
    org.opencontainers.image.description="gosched as a scheduler of Kubernetes" \
    org.opencontainers.image.licenses=MIT \
    org.opencontainers.image.version=${VERSION} \
    org.opencontainers.image.revision=${REVISION}

# The agent's tasks want a system around them: a shell, tools, an OCI runtime. It is root, since it makes cgroups and
# containers and starts tasks as the users that they ask for. tini is its init: a task whose supervisor was killed is a
# child of process 1, and tini reaps it.
FROM ${BASE} AS agent
RUN { command -v crun && command -v tini; } >/dev/null || { \
        apt-get update -qq && apt-get install -y -qq --no-install-recommends crun tini && \
        rm -rf /var/lib/apt/lists/* /var/cache/apt/* /var/log/apt /var/log/dpkg.log; }
COPY --from=agent-base /image/ /
COPY --from=agent-gosched /gosched/ /
ENV PATH=/opt/gosched/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    GOSCHED_DATA_DIR=/var/lib/gosched GOSCHED_HEALTH_ADDR=:9091
VOLUME /var/lib/gosched
EXPOSE 9091
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["python", "-m", "gosched.health"]
ENTRYPOINT ["tini", "-s", "--", "gosched-agent", "--config=/etc/gosched/agent.yaml"]
ARG VERSION=unknown
ARG REVISION=unknown
LABEL org.opencontainers.image.title=gosched-agent \
    org.opencontainers.image.description="An agent of a gosched cluster" \
    org.opencontainers.image.licenses=MIT \
    org.opencontainers.image.version=${VERSION} \
    org.opencontainers.image.revision=${REVISION}
