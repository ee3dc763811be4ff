#!/bin/sh
# Makes sure that a C compiler, Python's venv and headers, and Valgrind are there: installs Debian's packages where it may.
# `tools/need.sh tests`: also every program that a test would otherwise be skipped for.
set -eu
missing=""
need() { # PACKAGES COMMAND...: the packages, where one of the commands is missing
    packages=$1
    shift
    for command in "$@"; do
        command -v "$command" >/dev/null 2>&1 || { missing="$missing $packages"; return 0; }
    done
}
need "gcc libc6-dev" cc
command -v valgrind >/dev/null 2>&1 && [ -e /usr/include/valgrind/pub_tool_basics.h ] || missing="$missing valgrind"
python=${PYTHON:-python3}
need python3 "$python"
"$python" -c 'import venv, ensurepip' >/dev/null 2>&1 || missing="$missing python3-venv"
header=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))' 2>/dev/null || true)
[ -n "$header" ] && [ -e "$header/Python.h" ] || missing="$missing python3-dev"
if [ "${1:-}" = tests ]; then
    need "g++ gfortran binutils" g++ gfortran objdump
    need "openmpi-bin libopenmpi-dev" mpirun.openmpi mpicc.openmpi mpifort.openmpi
    need "mpich libmpich-dev" mpirun.mpich mpicc.mpich
    need libsimgrid-dev smpirun smpicc
    need make make
    need "git nodejs sqlite3 libxml2-utils xz-utils" git node sqlite3 xmllint xz
    need "perl openssl util-linux" perl openssl taskset
    need "zsh fish" zsh fish
    need llvm llvm-mca
    need chromium chromium
fi
[ -n "$missing" ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing Debian packages:$missing" >&2
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
    echo "Please install these Debian packages first: apt-get install$missing" >&2
    exit 4
fi
