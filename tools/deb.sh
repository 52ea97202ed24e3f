#!/usr/bin/env bash
# Makes dist/gosched_VERSION_ARCH.deb with dpkg-deb: gosched and all that it needs, at the locked versions, in /opt/gosched, for
# Debian's own Python of the version that this environment has. `make deb` gives the Python, and SOURCE_DATE_EPOCH.
set -euo pipefail
cd "$(dirname "$0")/.."
python=${1:?usage: tools/deb.sh PYTHON}
version=$("$python" -c 'import gosched; print(gosched.__version__)')
minor=$("$python" -c 'import sys; print(sys.version_info.minor)')
arch=$(dpkg --print-architecture)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
umask 022
root=$scratch/root venv=$scratch/root/opt/gosched

"$python" -m venv --without-pip "$venv"
into() { "$python" -m pip --python "$venv/bin/python3" install --quiet --disable-pip-version-check --no-compile "$@"; }
into --require-hashes -r requirements/master.lock -r requirements/agent.lock
"$python" -m hatchling build -t wheel -d "$scratch/wheel" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; exit 1; }
into --no-deps "$scratch"/wheel/*.whl

# From here on it belongs to /opt/gosched, and to the system's Python.
find "$venv/bin" ! -type d ! -name 'gosched*' -delete
rm -r "$venv"/include "$venv"/lib64
ln -s "/usr/bin/python3.$minor" "$venv/bin/python3"
sed -i '1s|^#!.*|#!/opt/gosched/bin/python3|' "$venv"/bin/gosched*
printf 'home = /usr/bin\ninclude-system-site-packages = false\n' >"$venv/pyvenv.cfg"
find "$venv" -name direct_url.json -delete # it names the scratch folder
"$python" -m compileall -q -s "$root" --invalidation-mode unchecked-hash "$venv/lib"

mkdir -p "$root"/{usr/bin,etc/gosched,lib/systemd/system,usr/share/man,DEBIAN}
mkdir -p "$root"/usr/share/{doc/gosched,bash-completion/completions,zsh/vendor-completions,fish/vendor_completions.d}
for program in goschedctl gosched-master gosched-agent; do ln -s "/opt/gosched/bin/$program" "$root/usr/bin/"; done
install -m 644 deploy/systemd/*.service "$root/lib/systemd/system/"
install -m 644 deploy/systemd/*.yaml "$root/etc/gosched/"
install -m 644 LICENSE "$root/usr/share/doc/gosched/copyright"
"$python" tools/man.py "$root/usr/share/man" && gzip -9n "$root"/usr/share/man/man?/*
completion() { "$python" -m gosched.cli.main completion "$1" >"$root/usr/share/$2"; }
completion bash bash-completion/completions/goschedctl
completion fish fish/vendor_completions.d/goschedctl.fish
completion zsh zsh/vendor-completions/_goschedctl

cat >"$root/DEBIAN/control" <<END
Package: gosched
Version: $version
Architecture: $arch
Depends: python3 (>= 3.$minor), python3 (<< 3.$((minor + 1)))
Recommends: crun | runc
Section: admin
Priority: optional
Maintainer: gosched <https://github.com/gosched/gosched>
Installed-Size: $(du -sk "$root" | cut -f 1)
Homepage: https://github.com/gosched/gosched
Description: highly available cluster scheduler for gang jobs
 Masters that replicate every decision, agents that run the tasks, and the command line.
 No unit is enabled: edit the files in /etc/gosched, then systemctl enable --now gosched-master, or gosched-agent.
END
(cd "$root" && find etc -type f -printf '/%p\n') >"$root/DEBIAN/conffiles"
install -m 755 deploy/deb/* "$root/DEBIAN/"
mkdir -p dist
dpkg-deb --root-owner-group -Zzstd --build "$root" dist
