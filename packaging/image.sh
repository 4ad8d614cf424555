#!/usr/bin/env bash
# Build an image of rowfall @VERSION@ from Debian's packages, without a registry of images:
#
#   bash image.sh RELEASE OUT.tar      # RELEASE: the folder of `make release`
#   docker load -i OUT.tar             # or podman load
#
# Needs mmdebstrap, root (or user namespaces), and a python3 with pip. SUITE=trixie takes another Debian,
# MIRROR another source of packages than this machine's. The same packages make the same bytes.
set -euo pipefail
version=@VERSION@
export SOURCE_DATE_EPOCH=@EPOCH@
# All optional dependencies, as nobody wants to build an image for each.
requirements=requirements-all-$version.txt

# Second step, which mmdebstrap starts: put rowfall into the new root $1.
fill() {
    local root=$1 release=$2 python packages platforms=()
    python=$(chroot "$root" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')
    packages=/usr/local/lib/python$python/dist-packages
    for glibc in $(seq 17 "$(chroot "$root" ldd --version | sed -nE '1s/.*2\.([0-9]+)$/\1/p')"); do
        platforms+=(--platform "manylinux_2_${glibc}_$(uname -m)")
    done
    # pip of this machine installs for the Python of the image: nothing of it is left there.
    take() {
        python3 -m pip install -q --disable-pip-version-check --no-compile --no-deps --only-binary=:all: \
            --python-version "$python" "${platforms[@]}" --platform "manylinux2014_$(uname -m)" \
            --root-user-action ignore --target "$root$packages" --upgrade "$@"
    }
    take --require-hashes -r "$release/$requirements"
    take "$release/rowfall-$version-py3-none-any.whl" \
        "$release"/rowfall_decode-"$version"-*manylinux*"$(uname -m)".whl
    mv "$root$packages/bin/rowfall-decode" "$root/usr/local/bin/"
    rm -r "$root$packages/bin"
    printf '#!/usr/bin/python3\nfrom rowfall.cli import main\n\nmain()\n' >"$root/usr/local/bin/rowfall"
    chmod 755 "$root/usr/local/bin/rowfall"
    # Compiled here once, not in each container; by hashes, as times of files would differ.
    chroot "$root" python3 -m compileall -q -j 0 --invalidation-mode unchecked-hash "$packages" || :
    chroot "$root" useradd --uid 1000 --create-home rowfall
    mkdir "$root/work" && chown 1000:1000 "$root/work"
    rm -rf "$root"/var/cache/* "$root"/var/log/* "$root"/var/lib/apt/lists/* "$root"/usr/share/{doc,man,locale}/*
}
if [ "$1" = --fill ]; then
    fill "$3" "$2"
    exit
fi

release=$(cd "$1" && pwd)
out=$2
me=$(cd "$(dirname "$0")" && pwd)/$(basename "$0")
(cd "$release" && sha256sum --quiet --check SHA256SUMS)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mmdebstrap --quiet --variant=minbase --include=ca-certificates,python3,tzdata \
    --customize-hook="bash '$me' --fill '$release' \"\$1\"" \
    "${SUITE:-bookworm}" "$work/layer.tar" ${MIRROR:+"$MIRROR"}

# What `docker save` writes: one layer and how to start it.
python3 - "$work" "$version" <<'PYTHON'
import datetime, hashlib, json, os, pathlib, platform, sys
work, version = pathlib.Path(sys.argv[1]), sys.argv[2]
with open(work / "layer.tar", "rb") as layer:
    digest = hashlib.file_digest(layer, "sha256").hexdigest()
made = datetime.datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), datetime.timezone.utc)
config = json.dumps({
    "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[platform.machine()], "os": "linux",
    "created": made.strftime("%Y-%m-%dT%H:%M:%SZ"),
    "config": {
        "User": "1000:1000", "WorkingDir": "/work", "Entrypoint": ["rowfall"], "Cmd": ["--help"],
        "Env": ["PATH=/usr/local/bin:/usr/bin:/bin", "LANG=C.UTF-8", "HOME=/home/rowfall"],
        "Labels": {"org.opencontainers.image.version": version, "org.opencontainers.image.licenses": "Apache-2.0"},
    },
    "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    "history": [{"created": made.strftime("%Y-%m-%dT%H:%M:%SZ"), "created_by": "packaging/image.sh"}],
}, sort_keys=True)
name = hashlib.sha256(config.encode()).hexdigest() + ".json"
(work / name).write_text(config)
(work / "manifest.json").write_text(json.dumps(
    [{"Config": name, "RepoTags": [f"rowfall:{version}"], "Layers": ["layer.tar"]}]))
PYTHON
mkdir -p "$(dirname "$out")"
tar -C "$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
    -cf "$out" manifest.json layer.tar "$(cd "$work" && ls ./*.json | grep -v manifest | cut -c3-)"
echo "$out: $(stat -c %s "$out" | numfmt --to=iec) for $(uname -m); docker load -i $out"
