#!/usr/bin/env bash
# pack.sh: the Hopper libraries for a GPU machine without a network, unpacked into .gpu/kernels.tar.xz (17 MB).
set -euo pipefail
cd "$(dirname "$0")/../.."
work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
platforms=(--platform manylinux2014_x86_64)
for glibc in 17 24 26 27 28 31 34; do platforms+=(--platform "manylinux_2_${glibc}_x86_64"); done
python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 --implementation cp "${platforms[@]}" \
  -d "$work/wheels" sgl-deep-gemm==0.1.5 fa3-fwd==0.0.3 apache-tvm-ffi==0.1.15.post2 gguf==0.19.0
mkdir -p "$work/site" .gpu
for wheel in "$work"/wheels/*.whl; do unzip -qo "$wheel" -d "$work/site"; done
XZ_OPT=-3 tar cJf .gpu/kernels.tar.xz -C "$work/site" .
ls -l .gpu/kernels.tar.xz
