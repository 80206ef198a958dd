# Sourced by the scripts: finds or fetches the tools they need, below .tools/ in the repository, never globally.
BUN_VERSION=1.4.5
UV_VERSION=0.13.9

say() { printf '== %s\n' "$*"; }
fail() { printf 'error: %s\n' "$*" >&2; exit 1; }

need_python() {
  for name in python3.12 python3.11 python3.13 python3; do
    if command -v "$name" >/dev/null 2>&1 && "$name" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      PYTHON=$(command -v "$name")
      return
    fi
  done
  fail "Python 3.11 or later is needed and was not found on PATH"
}

# Bun of exactly our version: from PATH, else from npm.
need_bun() {
  if command -v bun >/dev/null 2>&1 && [ "$(bun --version)" = "$BUN_VERSION" ]; then
    BUN=$(command -v bun)
  else
    folder=$PWD/.tools/bun-$BUN_VERSION
    if ! "$folder/node_modules/.bin/bun" --version >/dev/null 2>&1; then
      command -v npm >/dev/null 2>&1 || fail "Bun $BUN_VERSION is needed: neither it nor npm was found on PATH"
      say "installing Bun $BUN_VERSION from npm"
      npm install --silent --no-save --prefix "$folder" "bun@$BUN_VERSION" >/dev/null
      "$folder/node_modules/.bin/bun" --version >/dev/null 2>&1 || node "$folder/node_modules/bun/install.js"
    fi
    BUN=$folder/node_modules/.bin/bun
  fi
  PATH=$(dirname "$BUN"):$PATH
  export PATH
}

# uv: AGL_UV, PATH, else a virtual environment of its own with uv from PyPI.
need_uv() {
  if [ -n "${AGL_UV:-}" ]; then return; fi
  if command -v uv >/dev/null 2>&1; then return; fi
  need_python
  folder=$PWD/.tools/uv-$UV_VERSION
  if ! "$folder/bin/uv" --version >/dev/null 2>&1; then
    say "installing uv $UV_VERSION from PyPI"
    rm -rf "$folder"
    "$PYTHON" -m venv "$folder"
    "$folder/bin/pip" install --quiet --disable-pip-version-check "uv==$UV_VERSION"
  fi
  PATH=$PATH:$folder/bin
  export PATH
}

need_packages() {
  if [ ! -d node_modules ] || [ bun.lock -nt node_modules/.agl-installed ]; then
    say "installing the packages of bun.lock"
    "$BUN" install --frozen-lockfile --silent
    touch node_modules/.agl-installed
  fi
}

# pytest and ruff, pinned with hashes, in a virtual environment of their own.
need_python_tools() {
  DEV=$PWD/.tools/python
  pins=trainer/requirements/dev.txt
  if ! cmp -s "$pins" "$DEV/pins.txt"; then
    say "installing pytest and ruff"
    rm -rf "$DEV"
    need_python
    "${AGL_UV:-uv}" venv --quiet --python "$PYTHON" "$DEV"
    "${AGL_UV:-uv}" pip install --quiet --python "$DEV/bin/python" --require-hashes -r "$pins"
    cp "$pins" "$DEV/pins.txt"
  fi
  DEV_PACKAGES=$("$DEV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
}
