#!/usr/bin/env bash
# whole.sh: on a Hopper machine, whole queries through the real client, with row-scaled fp8, then block fp8.
# Libraries come as .gpu/kernels.tar.xz and .gpu/server.tar.xz (bench/gpu/README.md); logs under $OUT.
set -uo pipefail
cd "$(dirname "$0")/../.."
. bench/gpu/setup.sh

whole() { # NAME SECONDS ARGUMENT…
  local name=$1 limit=$2; shift 2
  timeout "$limit" python3 bench/end_to_end.py "$@" 2>&1 | tee "$out/$name.log"
  echo "== $name ended after $SECONDS s"
}

whole rows 215 $model-bf16 --dtype fp8 --repeats "${REPEATS:-2}" --only "${ONLY:-}"
[ -d $model-fp8 ] || python3 bench/gpu/random_model.py $model-fp8; cp $site/qwen3tok/* $model-fp8/
whole blocks 150 $model-fp8 --repeats 1 --only filter
nvidia-smi --query-gpu=name,power.draw,clocks.sm,temperature.gpu --format=csv,noheader
