#!/usr/bin/env bash
# Make the environment of the demo in the folder $1: what rowfall needs at run time and nothing else.
# The libraries are installed while rowfall-decode is compiled; a line every five seconds says how far.
set -euo pipefail
cd "$(dirname "$0")/.."
env=$1
crate=crates/rowfall-decode
logs=$(mktemp -d "${TMPDIR:-/tmp}/rowfall-setup.XXXXXX")
libraries='' decoder=''
end() {
    for job in $libraries $decoder; do kill "$job" 2>/dev/null || :; done
    rm -rf "$logs"
}
trap end EXIT
rm -rf "$env"
echo "Setting up the demo in $env, once: libraries and the embedded ClickHouse from requirements.lock"

install_libraries() {
    "${PYTHON:-python3}" -m venv "$env"
    # --no-compile: Python compiles what it imports, which is a tenth of what is there.
    "$env/bin/pip" install --disable-pip-version-check --no-compile --require-hashes --no-deps \
        -r requirements.lock
    "$env/bin/pip" install --disable-pip-version-check --no-compile --no-deps --no-build-isolation -e .
}
install_libraries >"$logs/libraries" 2>&1 &
libraries=$!

# A wheel that `make wheels` has left is taken; otherwise the program is compiled for this demo only.
wheel=$(ls dist/rowfall_decode-*"$(uname -m)".whl 2>/dev/null | tail -n 1 || :)
if [ -z "$wheel" ] && cargo --version >/dev/null 2>&1; then
    echo "and rowfall-decode from $crate, by cargo"
    (cd "$crate" && CARGO_TARGET_DIR="$PWD/target" exec cargo build --locked --profile demo --no-default-features) \
        >"$logs/decoder" 2>&1 &
    decoder=$!
elif [ -z "$wheel" ]; then
    echo "there is no Rust toolchain: text is parsed by the engine itself, which takes more CPU"
fi

running() { [ -n "$1" ] && kill -0 "$1" 2>/dev/null; }
said=0
while running "$libraries" || running "$decoder"; do
    sleep 0.2
    [ $((SECONDS - said)) -ge 5 ] || continue
    said=$SECONDS
    line=$(printf '%4d s' "$SECONDS")
    if running "$libraries"; then
        doing=$(grep -oE '^ *(Collecting|Downloading|Installing) [A-Za-z0-9_-]+' "$logs/libraries" | tail -n 1 || :)
        line+="  libraries: ${doing:-making the environment}"
    fi
    if running "$decoder"; then
        now=$(grep -oE '^ *Compiling [A-Za-z0-9_-]+' "$logs/decoder" | tail -n 1 | sed 's/.* //' || :)
        line+="  rowfall-decode: $(grep -c '^ *Compiling' "$logs/decoder" || :) crates, now ${now:-fetching}"
    fi
    echo "$line"
done
finish() { # job, its log
    [ -z "$1" ] || wait "$1" || { cat "$logs/$2"; echo "the $2 could not be made"; exit 1; }
}
finish "$libraries" libraries
finish "$decoder" decoder
libraries='' decoder_built=$decoder decoder=''
[ -z "$wheel" ] || "$env/bin/pip" install -q --disable-pip-version-check --no-deps "$wheel"
[ -z "$decoder_built" ] || cp "$crate/target/demo/rowfall-decode" "$env/bin/"
touch "$env/.made"
echo "ready after $SECONDS s"
