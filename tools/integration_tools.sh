#!/usr/bin/env bash
# Installs what `make test-integration` and `make test-kubernetes` need and do not find: Spark and gssapi into .venv, and packages of the
# system (root, apt-get; else it says what is missing). It never stops the tests: those whose tools could not be had fail, and are not skipped.
set -euo pipefail
cd "$(dirname "$0")/.."

spark=pyspark==4.3.0
.venv/bin/python -c 'import pyspark' 2>/dev/null || {
    echo "pip install $spark" >&2
    timeout 600 .venv/bin/python -m pip install --quiet --disable-pip-version-check "$spark" ||
        echo "could not install $spark: its tests will fail" >&2
}

# An old Helm, Kubernetes' schemas, Prometheus and promtool, outside the checkout.
.venv/bin/python tools/chart_tools.py || echo "could not install what chart and metrics are tested with: their tests will fail" >&2

# An S3 server for the archive of logs, built with Go once.
.venv/bin/python tools/s3_server.py || echo "could not build an S3 server: the tests of the archive will fail" >&2

# YARN, outside the checkout: Maven, which fetches it, is among the packages below.
yarn() { .venv/bin/python -m tools.hadoop || echo "could not fetch Hadoop: the tests of YARN will fail" >&2; }

# The extra `kerberos` of those tests, which is compiled with what libkrb5-dev has.
gssapi=gssapi==1.12.0
kerberos() {
    .venv/bin/python -c 'import gssapi' 2>/dev/null || {
        echo "pip install $gssapi" >&2
        timeout 600 .venv/bin/python -m pip install --quiet --disable-pip-version-check "$gssapi" ||
            echo "could not install $gssapi: the tests of YARN with Kerberos will fail" >&2
    }
}

# What checks pages for accessibility, outside the checkout; npm is among the packages below.
axe() { .venv/bin/python -m tools.browser_tools || echo "could not install axe-core: the tests of the page will fail" >&2; }

# A program, and the Debian package that it comes in.
needed=(
    qemu-system-x86_64 qemu-system-x86
    mke2fs e2fsprogs
    setpriv util-linux
    ip iproute2
    crun crun
    runc runc
    dockerd docker.io
    podman podman
    containerd containerd
    /usr/lib/cni/bridge containernetworking-plugins
    nft nftables
    mmdebstrap mmdebstrap
    iptables iptables
    /lib/systemd/systemd systemd
    java openjdk-17-jre-headless
    mvn maven
    zsh zsh
    fish fish
    groff groff
    chromium chromium
    chromedriver chromium-driver
    npm npm
    mpicc.openmpi libopenmpi-dev
    mpiexec.openmpi openmpi-bin
    mpicc.mpich libmpich-dev
    mpiexec.hydra mpich
    slurmctld slurm-wlm
    munged munge
    krb5kdc krb5-kdc
    kadmin.local krb5-admin-server
    kinit krb5-user
    krb5-config libkrb5-dev
)
export PATH="$PATH:/usr/sbin:/sbin"

missing=()
for ((i = 0; i < ${#needed[@]}; i += 2)); do
    command -v "${needed[i]}" >/dev/null || missing+=("${needed[i + 1]}")
done
# Where the guest starts there are no libraries: a busybox that needs some will not do.
if ! [ -x /bin/busybox ] || ldd /bin/busybox >/dev/null 2>&1; then missing+=(busybox-static); fi
# Chromium comes without fonts.
[ -e /usr/share/fonts/truetype/dejavu/DejaVuSans.ttf ] || missing+=(fonts-dejavu-core)

# The kernel of the virtual machine is not installed, only downloaded: apt has to know it.
knows_the_kernel() { apt-cache show linux-image-cloud-amd64 >/dev/null 2>&1; }

if [ ${#missing[@]} -eq 0 ] && knows_the_kernel; then
    axe
    yarn
    kerberos
    exit 0
fi

if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
    echo "some integration tests will fail; as root on Debian: apt-get update; apt-get install ${missing[*]}" >&2
    axe
    yarn
    kerberos
    exit 0
fi
echo "apt-get update; apt-get install ${missing[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
said=$(mktemp)
trap 'rm -f "$said"' EXIT
if ! { timeout 300 apt-get update && timeout 600 apt-get install -y --no-install-recommends "${missing[@]}"; } >"$said" 2>&1; then
    tail -n 20 "$said" >&2
    echo "that failed: some integration tests will, too" >&2
fi
axe
yarn
kerberos
