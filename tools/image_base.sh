#!/usr/bin/env bash
# Makes the base of the images where no registry of images is reached: Debian 12 with Python, as a tar that `docker import`
# takes. Prints its path. Kept in the cache under a name that changes with this file. Needs root and mmdebstrap.
set -euo pipefail
suite=bookworm
packages=python3,python3-venv,ca-certificates,crun,tini
cache=${XDG_CACHE_HOME:-$HOME/.cache}/gosched
base=$cache/image-base-$suite-$(sha256sum "$0" | cut -c 1-12).tar
if ! [ -s "$base" ]; then
    mkdir -p "$cache"
    made=$(mktemp -d "$cache/image-base.XXXXXX")
    trap 'rm -rf "$made"' EXIT
    # The machine's own authorities go in: its registries of packages may be behind a private one.
    mmdebstrap --quiet --format=tar --variant=minbase --include="$packages" \
        --dpkgopt='path-exclude=/usr/share/man/*' --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        --customize-hook='rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*' \
        --customize-hook='copy-in /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs' \
        "$suite" "$made/base.tar" >&2
    mv "$made/base.tar" "$base"
fi
echo "$base"
