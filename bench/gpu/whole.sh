#!/usr/bin/env bash
# whole.sh: on a Hopper machine, whole queries through the real client, with row-scaled fp8, then block fp8.
# Libraries come as .gpu/kernels.tar.xz and .gpu/server.tar.xz (bench/gpu/README.md); logs under $OUT.
set -uo pipefail
cd "$(dirname "$0")/../.."
out=${OUT:-/tmp/out}; mkdir -p "$out"
site=/tmp/covey_site; model=/tmp/qwen3-4b
mkdir -p $site
for archive in kernels server; do tar xJf .gpu/$archive.tar.xz -C $site & done; wait
export PYTHONPATH="$PWD/engine:$PWD/storage:$PWD/planner:$PWD/server:$PWD/clients/python:$PWD/tests:$site"
export PYTHONUNBUFFERED=1 DG_JIT_CACHE_DIR=/tmp/deep_gemm_cache
# The client says its version by its package's metadata.
mkdir -p $site/covey-0.1.0.dist-info; printf 'Metadata-Version: 2.1\nName: covey\nVersion: 0.1.0\n' >$site/covey-0.1.0.dist-info/METADATA
echo "unpacked after $SECONDS s"

whole() { # NAME SECONDS ARGUMENT…
  local name=$1 limit=$2; shift 2
  timeout "$limit" python3 bench/end_to_end.py "$@" 2>&1 | tee "$out/$name.log"
  echo "== $name ended after $SECONDS s"
}

[ -d $model-bf16 ] || python3 bench/gpu/random_model.py $model-bf16 --bfloat16; cp $site/qwen3tok/* $model-bf16/
whole rows 215 $model-bf16 --dtype fp8 --repeats "${REPEATS:-2}"
[ -d $model-fp8 ] || python3 bench/gpu/random_model.py $model-fp8; cp $site/qwen3tok/* $model-fp8/
whole blocks 150 $model-fp8 --repeats 1 --only filter
nvidia-smi --query-gpu=name,power.draw,clocks.sm,temperature.gpu --format=csv,noheader
