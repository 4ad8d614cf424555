#!/usr/bin/env bash
# The main job in one go: write test files, load them, check them, look at the result.
# `make demo` runs it; rowfall has to be on PATH.
set -euo pipefail
work=$(mktemp -d "${TMPDIR:-/tmp}/rowfall-demo.XXXXXX")
trap 'rm -rf "$work"' EXIT
export ROWFALL_HOME="$work/state"
cd "$work"

say() { printf '\n\033[1m$ %s\033[0m\n' "$*"; }
run() { say "$@"; "$@"; }

# 10 million rows in 20 files, made by the engine.
run rowfall load 'generate://trips?rows=10_000_000' --to 'trips/part_{n}.csv.gz' --files 20 \
    --to-format CSVWithNames
# What a load would do.
run rowfall plan 'trips/*.csv.gz' --to data
# The load; --verify reads the source again and compares checksums.
run rowfall load 'trips/*.csv.gz' --to data --verify
# The same command again finds nothing to do.
run rowfall load 'trips/*.csv.gz' --to data
run rowfall query 'SELECT vehicle_id, count() AS trips, avg(distance_miles) AS miles
                   FROM trips GROUP BY vehicle_id ORDER BY vehicle_id' --to data
