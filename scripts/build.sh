#!/bin/sh
# Compiles ./agl: one file with the program, the trainer's Python files, the small model and its tasks.
set -eu
cd "$(dirname "$0")/.."
. scripts/tools.sh
need_bun
need_packages
"$BUN" scripts/build.ts
