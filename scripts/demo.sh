#!/bin/sh
# From a fresh clone to a better model: fetches the tools it needs, builds ./agl and runs the whole loop with the small
# model on this machine's CPU. Safe to repeat; the second time only the loop itself takes time. Arguments go to `agl allinone`.
set -eu
cd "$(dirname "$0")/.."
. scripts/tools.sh

say "1/3 tools: Bun $BUN_VERSION, uv, Python 3.11 or later, the packages of bun.lock"
need_bun
need_uv
need_packages
say "2/3 build: ./agl"
"$BUN" scripts/build.ts
say "3/3 run: ./agl allinone $*"
exec ./agl allinone "$@"
