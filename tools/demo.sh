#!/bin/sh
# The main job on two real programs: profile this machine, predict the shipped solver and a program that nobody here wrote.
# Usage: tools/demo.sh FOLDER, with convolver on the path. Everything lands in FOLDER; sizes suit two cores and three minutes.
set -eu
folder=$1
targets="--target desktop-32m --target server-hbm"
mkdir -p "$folder"
cc -g -O2 -o "$folder/cg" "$(dirname "$0")/../examples/cg.c" -lm
cd "$folder"

say() { printf '\n== %s\n' "$*" >&2; }

say "1. Profile this machine (convolver probe --quick)"
convolver probe --quick --force -o host.machine.json >/dev/null

say "2. A sparse conjugate-gradient solver (examples/cg.c)"
convolver predict --base host.machine.json $targets --force -- ./cg 50

# Real text that is on every machine that can run this: the sources of Python's library.
library=$(python3 -c 'import os; print(os.path.dirname(os.__file__))')
cat "$library"/*.py | head -c 4000000 >input.txt

if command -v xz >/dev/null 2>&1; then
    set -- xz -2 -k -f input.txt
elif command -v gzip >/dev/null 2>&1; then
    set -- gzip -k -f input.txt
else
    set -- python3 -c "print(sum(i * i for i in range(400000)))"
fi
say "3. A program found on this machine ($1)"
convolver predict --base host.machine.json $targets --force -- "$@"
say "All artifacts are in $(pwd); 'convolver info FILE' explains any of them."
