#!/usr/bin/env bash
# Installs the frameworks that `make test-frameworks` runs as gangs. What is there already is left alone.
#
#   frameworks.sh debian    PyTorch 1.13, mpi4py and Open MPI of Debian, by apt-get as root
#   frameworks.sh ray       an environment with Ray in the cache, 300 MB; prints its path
#   frameworks.sh torchft   one with torchft and PyTorch 2, whose wheels bring CUDA along: 5.5 GB, 10 minutes; prints its path
set -euo pipefail
ray=ray==2.60.0
torchft="torch==2.15.0 torchft==0.2.0 numpy==2.4.6"

debian() {
    # A program or a module of Debian's Python, and the package that it comes in.
    local missing=()
    command -v mpiexec.openmpi >/dev/null || missing+=(openmpi-bin)
    for module in torch mpi4py; do
        /usr/bin/python3 -c "import $module" 2>/dev/null || missing+=("python3-$module")
    done
    [ ${#missing[@]} -eq 0 ] && return
    if [ "$(id -u)" -ne 0 ] || ! command -v apt-get >/dev/null; then
        echo "as root on Debian: apt-get update; apt-get install ${missing[*]}" >&2
        return 1
    fi
    echo "apt-get update; apt-get install ${missing[*]}" >&2
    export DEBIAN_FRONTEND=noninteractive
    { timeout 300 apt-get update && timeout 900 apt-get install -y --no-install-recommends "${missing[@]}"; } >&2
}

# environment NAME PACKAGE...: an environment in the cache, named by what is in it.
environment() {
    local name=$1 place
    shift
    place=${XDG_CACHE_HOME:-$HOME/.cache}/gosched/$name-$(echo "$*" | sha256sum | head -c 12)
    # Programs in an environment name its path, so it is made in place: the stamp says that it is whole.
    if ! [ -e "$place/whole" ]; then
        rm -rf "$place"
        echo "pip install $*" >&2
        python3 -m venv "$place" >&2
        timeout 1800 "$place/bin/python" -m pip install --quiet --no-cache-dir --disable-pip-version-check "$@" >&2
        touch "$place/whole"
    fi
    echo "$place"
}

case ${1:-} in
debian) debian ;;
ray) environment ray "$ray" ;;
torchft) environment torchft $torchft ;;
*) echo "frameworks.sh debian|ray|torchft" >&2; exit 2 ;;
esac
