#!/usr/bin/env bash
# Builds an OpenTelemetry collector from its Go modules: OTLP over HTTP in, the `debug` exporter out. Prints its path. Kept in the
# cache, by version. Needs go; its own caches are removed after the build.
set -euo pipefail
version=v0.150.0
stable=v1.56.0 # of the modules that are stable already

collector=${XDG_CACHE_HOME:-$HOME/.cache}/gosched/otel-collector-$version
if ! [ -x "$collector" ]; then
    mkdir -p "$(dirname "$collector")"
    made=$(mktemp -d)
    trap 'rm -rf "$made"' EXIT
    export GOPATH=$made/go GOCACHE=$made/cache GOFLAGS="${GOFLAGS:-} -modcacherw" CGO_ENABLED=0
    cat >"$made/build.yaml" <<Y
dist: {module: gosched.test/collector, name: collector, output_path: $made/dist, version: 0.0.1}
receivers: [{gomod: "go.opentelemetry.io/collector/receiver/otlpreceiver $version"}]
exporters: [{gomod: "go.opentelemetry.io/collector/exporter/debugexporter $version"}]
providers: # the collector does not start without the one of environment variables
  - {gomod: "go.opentelemetry.io/collector/confmap/provider/envprovider $stable"}
  - {gomod: "go.opentelemetry.io/collector/confmap/provider/fileprovider $stable"}
Y
    {
        GOBIN=$made timeout 600 go install -trimpath -ldflags "-s -w" "go.opentelemetry.io/collector/cmd/builder@$version"
        timeout 900 "$made/builder" --config "$made/build.yaml" --ldflags "-s -w"
    } >"$made/said" 2>&1 || { tail -n 20 "$made/said" >&2; exit 1; }
    mv "$made/dist/collector" "$collector.new"
    mv "$collector.new" "$collector"
fi
echo "$collector"
