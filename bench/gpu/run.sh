#!/usr/bin/env bash
# run.sh [STEP…]: on a Hopper machine, check and time the hopper runner; logs under $OUT, the tails last.
# Steps: tests runner kernels model profile rows host boot; libraries come as .gpu/kernels.tar.xz (bench/gpu/README.md).
set -uo pipefail
cd "$(dirname "$0")/../.."
out=${OUT:-/tmp/out}; mkdir -p "$out"
site=/tmp/covey_site; model=/tmp/qwen3-4b
[ -d $site ] || { mkdir -p $site && tar xJf .gpu/kernels.tar.xz -C $site; }
export PYTHONPATH="$PWD/engine:$PWD/storage:$PWD/tests:$site" PYTHONUNBUFFERED=1
export DG_JIT_CACHE_DIR=/tmp/deep_gemm_cache

step() { # NAME SECONDS COMMAND…
  local name=$1 limit=$2; shift 2
  local began=$SECONDS
  timeout "$limit" "$@" >"$out/$name.log" 2>&1
  echo "== $name: exit $?, $((SECONDS - began)) s" | tee -a "$out/$name.log"
}

for wanted in "${@:-tests runner kernels model profile}"; do for s in $wanted; do case $s in
  tests) step tests 200 python3 -m pytest -W default -s -p no:cacheprovider tests/prefill/test_kernels.py tests/prefill/test_partial_attention.py ;;
  runner) step runner 200 python3 -m pytest -W default -s -p no:cacheprovider tests/prefill/test_hopper_runner.py tests/prefill/test_hopper_precision.py ;;
  kernels) step kernels 90 python3 bench/kernel_rates.py ;;
  model) step model 90 python3 bench/gpu/random_model.py $model-fp8 ;;
  profile) step profile 240 python3 bench/profile_chunk.py $model-fp8 --json "$out/profile.json" ;;
  rows)
    step model_bf16 90 python3 bench/gpu/random_model.py $model-bf16 --bfloat16
    step rows 120 python3 bench/profile_chunk.py $model-bf16 --dtype fp8 --only filter --json "$out/rows.json" ;;
  host) step host 90 python3 bench/profile_chunk.py $model-fp8 --only small --host "$out/host.txt" ;;
  boot) step boot 60 python3 bench/profile_chunk.py $model-fp8 --only 'join 4000' ;;
  *) echo "no step $s" ;;
esac; done; done
for log in "$out"/*.log; do echo "---- $(basename "$log")"; tail -n 45 "$log" | cut -c 1-200; done
nvidia-smi --query-gpu=name,power.draw,clocks.sm,temperature.gpu --format=csv,noheader
