#!/usr/bin/env bash
# Installs an OpenID Connect issuer for tests: oidc-provider, from the npm registry, without scripts of packages. Prints its folder.
# Kept in the cache, by version. Needs npm.
set -euo pipefail
version=9.13.3

issuer=${XDG_CACHE_HOME:-$HOME/.cache}/gosched/oidc-provider-$version
if ! [ -d "$issuer" ]; then
    mkdir -p "$(dirname "$issuer")"
    made=$(mktemp -d "$issuer.XXXXXX")
    trap 'rm -rf "$made"' EXIT
    echo '{"private": true, "type": "module"}' >"$made/package.json"
    timeout 300 npm install --prefix "$made" --ignore-scripts --no-audit --no-fund --no-package-lock "oidc-provider@$version" \
        >"$made/said" 2>&1 || { tail -n 20 "$made/said" >&2; exit 1; }
    mv -T "$made" "$issuer" 2>/dev/null || [ -d "$issuer" ] # or another one was faster
fi
echo "$issuer"
