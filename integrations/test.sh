#!/usr/bin/env bash
# Test integrations, each in an environment of its own, with this checkout's rowfall and rowfall-decode:
#
#   bash integrations/test.sh dagster prefect      # `make test-integrations` makes .venv first
#
# PYTEST_ADDOPTS="-k partitions" runs a part of the tests.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
# Without the settings of pyproject.toml, which leave rowfall out: they are those of lock files.
uv() { "$root/.venv/bin/uv" "$@" -q --no-config; }

# Make the environment $2 from the lock file of the integration $1, in place: scripts name its folder.
make_environment() {
    echo "$1: making ${2#"$root"/}"
    rm -rf "$2"
    uv venv --python "$root/.venv/bin/python" "$2"
    uv pip install --python "$2/bin/python" --require-hashes -r "$root/integrations/$1/requirements.lock"
    touch "$2/.made"
}

# Put rowfall, the decoder that .venv has, and the integration $1 into the environment $2.
install_checkout() {
    local editables=(-e "$root") packages record
    packages=$(cd "$root/.venv" && echo lib/python*/site-packages)
    [ ! -d "$root/integrations/$1/src" ] || editables+=(-e "$root/integrations/$1")
    uv pip install --python "$2/bin/python" --no-deps --no-build-isolation "${editables[@]}"
    record=$(echo "$root/.venv/$packages"/rowfall_decode-*.dist-info/RECORD)
    [ -e "$record" ] || { echo "$1: without rowfall-decode, as .venv has none"; return; }
    cut -d, -f1 "$record" | while read -r file; do
        mkdir -p "$(dirname "$2/$packages/$file")"
        cp -p --remove-destination "$root/.venv/$packages/$file" "$2/$packages/$file"
    done
}

for name in "$@"; do
    folder=$root/integrations/$name
    [ -e "$folder/requirements.lock" ] || { echo "integrations/$name has no requirements.lock"; exit 2; }
    environment=$root/build/integrations-$name-$(sha256sum <"$folder/requirements.lock" | cut -c1-16)
    [ -e "$environment/.made" ] || make_environment "$name" "$environment"
    install_checkout "$name" "$environment"
    cd "$folder"
    export PATH="$environment/bin:$PATH" VIRTUAL_ENV="$environment"
    unset PYTHONDONTWRITEBYTECODE # the commands of the tests would compile rowfall each
    if [ -d src ]; then
        echo "$name: mypy"
        mypy --strict --cache-dir "$root/.mypy_cache" src
    fi
    echo "$name: pytest"
    # tests/lab starts the services that integrations load into.
    pytest -p no:cacheprovider -o "pythonpath=tests $root/tests" --import-mode=importlib tests
done
