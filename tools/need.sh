#!/bin/sh
# Makes sure that a C compiler, Python's venv and headers, and Valgrind are there: installs Debian's packages where it may.
# `tools/need.sh tests`: also every program that a test would otherwise be skipped for.
set -eu
missing=""
command -v cc >/dev/null 2>&1 || missing="$missing gcc libc6-dev"
command -v valgrind >/dev/null 2>&1 && [ -e /usr/include/valgrind/pub_tool_basics.h ] || missing="$missing valgrind"
python=${PYTHON:-python3}
command -v "$python" >/dev/null 2>&1 || missing="$missing python3"
"$python" -c 'import venv, ensurepip' >/dev/null 2>&1 || missing="$missing python3-venv"
header=$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))' 2>/dev/null || true)
[ -n "$header" ] && [ -e "$header/Python.h" ] || missing="$missing python3-dev"
if [ "${1:-}" = tests ]; then
    for package in g++ gfortran binutils make git perl openssl xz-utils nodejs sqlite3 libxml2-utils zsh fish llvm chromium \
        musl-tools clang libomp-dev golang-go rustc default-jdk-headless luajit openmpi-bin libopenmpi-dev mpich libmpich-dev \
        libsimgrid-dev; do
        dpkg -s "$package" >/dev/null 2>&1 || missing="$missing $package"
    done
fi
[ -n "$missing" ] || exit 0
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "Installing Debian packages:$missing" >&2
    apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
else
    echo "Please install these Debian packages first: apt-get install$missing" >&2
    exit 4
fi
