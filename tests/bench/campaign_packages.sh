#!/bin/sh
# Installs the Debian packages whose programs campaign.toml runs, where that is allowed; otherwise those programs are reported as left out.
set -eu
packages="xz-utils gzip bzip2 zstd coreutils sqlite3 perl-base gawk lua5.4 minisat glpk-utils hpcc python3-numpy libopenblas0-pthread mbw"
[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1 || exit 0
missing=""
for package in $packages; do
    dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'ok installed' || missing="$missing $package"
done
[ -n "$missing" ] || exit 0
echo "Installing Debian packages:$missing" >&2
(apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null) ||
    echo "Some packages cannot be installed; their programs will be left out." >&2
