#!/bin/sh
# All tests: types, lint and format; the TypeScript and Python suites; the real loop at reduced size on real vLLM, TRL
# and the calculator. Fetches what it needs. Ends with a line `N passed, N failed`. Safe to repeat, quicker the second time.
#   sh scripts/test.sh          everything
#   sh scripts/test.sh fast     without the tests that start the real model server
set -u
cd "$(dirname "$0")/.."
. scripts/tools.sh
results=$PWD/.tools/results
rm -rf "$results"
mkdir -p "$results"
# Byte code makes Python start three times faster.
unset PYTHONDONTWRITEBYTECODE

say "tools"
need_python
need_bun
need_uv
need_packages
need_python_tools

# check NAME COMMAND…: one check, counted as one test.
check() {
  name=$1
  shift
  say "$name"
  if "$@" >"$results/$name.log" 2>&1; then echo 1 0 >>"$results/checks"; else
    echo 0 1 >>"$results/checks"
    cat "$results/$name.log"
  fi
}

# suite NAME COMMAND…: a runner that writes $results/NAME.xml; one that ends badly without a failed test counts as one.
suite() {
  name=$1
  shift
  say "$name"
  "$@" || echo "$name" >>"$results/broken"
}

check static "$BUN" run check
check ruff "$DEV/bin/ruff" check --config trainer/pyproject.toml trainer scripts/small-model scripts/ask-model.py test/interop test/real
check ruff-format "$DEV/bin/ruff" format --check --config trainer/pyproject.toml trainer scripts/small-model scripts/ask-model.py test/interop test/real
check build "$BUN" scripts/build.ts
check bench-store "$BUN" scripts/bench-store.ts --smoke --agl ./agl
check bench-proxy "$BUN" scripts/bench-proxy.ts --smoke --agl ./agl
suite typescript "$BUN" test --timeout 60000 --reporter=junit --reporter-outfile="$results/typescript.xml" test

if [ "${1:-all}" != fast ]; then
  say "the Python environment (made on first use: about 700 MB to download)"
  ./agl setup | tee "$results/setup.log"
  PYTHON_CPU=$(sed -n 's/^python: //p' "$results/setup.log" | tail -n 1)
  suite python env PYTHONPATH="$DEV_PACKAGES" "$PYTHON_CPU" -m pytest -c trainer/pyproject.toml trainer/tests --junitxml="$results/python.xml"
  suite hub env AGL_PYTHON="$PYTHON_CPU" "$BUN" test --timeout 60000 --reporter=junit --reporter-outfile="$results/hub.xml" ./test/real/base-model.real.ts
  suite interop "$BUN" test --timeout 240000 --reporter=junit --reporter-outfile="$results/interop.xml" ./test/interop/interop.real.ts ./test/interop/tracer-adapter.real.ts \
    ./test/interop/messages-adapter.real.ts
  suite tracer env AGL_PYTHON="$PYTHON_CPU" "$BUN" test --timeout 300000 --reporter=junit --reporter-outfile="$results/tracer.xml" ./test/real/tracer.real.ts ./test/real/exactness.real.ts
  suite kill "$BUN" test --timeout 600000 --reporter=junit --reporter-outfile="$results/kill.xml" ./test/real/kill-store.real.ts
  suite requirements "$BUN" test --timeout 300000 --reporter=junit --reporter-outfile="$results/requirements.xml" ./test/real/requirements.real.ts
  suite parts "$BUN" test --timeout 600000 --reporter=junit --reporter-outfile="$results/parts.xml" ./test/real/parts.real.ts
  suite loop "$BUN" test --timeout 1200000 --reporter=junit --reporter-outfile="$results/loop.xml" ./test/real/loop.real.ts
  suite streams "$BUN" test --timeout 600000 --reporter=junit --reporter-outfile="$results/streams.xml" ./test/real/many-streams.real.ts
  suite faults "$BUN" test --timeout 1200000 --reporter=junit --reporter-outfile="$results/faults.xml" ./test/real/faults.real.ts
fi

exec "$BUN" scripts/count-tests.ts "$results"
