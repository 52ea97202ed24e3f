#!/usr/bin/env bash
# Builds Docker's compose plugin from its Go module, for machines that have none. Prints its path. Kept in the cache, by
# version. Needs go.
set -euo pipefail
version=v2.40.3
plugin=${XDG_CACHE_HOME:-$HOME/.cache}/gosched/docker-compose-$version
if ! [ -x "$plugin" ]; then
    mkdir -p "$(dirname "$plugin")"
    made=$(mktemp -d "$plugin.XXXXXX")
    trap 'chmod -R u+w "$made"; rm -rf "$made"' EXIT
    # `go install` refuses a module with replacements: a module of our own repeats them. What Go downloads and compiles
    # on the way goes again: gigabytes.
    export GOPATH=$made/go GOCACHE=$made/cache CGO_ENABLED=0
    cd "$made"
    source=$(cd / && go mod download -json "github.com/docker/compose/v2@$version" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
    {
        echo "module own"
        grep '^go ' "$source/go.mod"
        sed -n -e '/^\(replace\|exclude\) (/,/^)/p' -e '/^\(replace\|exclude\) [^(]/p' "$source/go.mod"
    } >go.mod
    go get "github.com/docker/compose/v2/cmd@$version" >&2
    go build -trimpath -ldflags '-s -w' -o docker-compose github.com/docker/compose/v2/cmd >&2
    mv docker-compose "$plugin"
fi
echo "$plugin"
