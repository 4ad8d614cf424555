# syntax=docker/dockerfile:1
# rowfall with its decoder, for amd64 and arm64. The wheels come first: `make wheels`, then
# `docker build -t rowfall .`. pip takes those of the image's machine.
FROM python:3.12-slim

# First what was built and nothing else, whatever an index has by these names; then what it needs.
RUN --mount=type=bind,source=dist,target=/wheels \
    pip install --no-cache-dir --no-index --no-deps --find-links /wheels rowfall rowfall-decode \
    && pip install --no-cache-dir 'rowfall[embedded,aws,arrow,postgresql,mysql,kafka,iceberg,delta,duckdb,excel,metrics,otel,openlineage]'

# Loaded data, the ledger and exports lie below /work: mount a volume there, which must be writable
# for this user (or give another one with --user).
RUN useradd --uid 1000 --create-home rowfall && mkdir /work && chown rowfall /work
USER rowfall
WORKDIR /work
ENTRYPOINT ["rowfall"]
CMD ["--help"]
