#!/usr/bin/env bash
# run.sh STEP…: on a Hopper machine without a network, Covey and its peers on the same tables and the same GPU.
# Steps: unpack model tables compile quail vllm covey covey-peer blocks blocks-peer summary; see README.md here.
# Figures go to standard output and to logs in $ROOT/peers_work ($ROOT: /tmp), which a later call's summary reads, and $OUT.
set -uo pipefail
cd "$(dirname "$0")/../.."
root=${ROOT:-/tmp}; work=$root/peers_work out=${OUT:-$root/peers_out}
peers=$root/peers_site ours=$root/covey_site model=$root/qwen3-4b
mkdir -p "$work" "$out" "$peers" "$ours"
export PYTHONUNBUFFERED=1 HF_HUB_OFFLINE=1
caches=(.cache/vllm/deep_gemm .cache/quail)

unpack() { # Archives that this call brought; each once. The two folders never meet: both have a DeepGEMM.
  for name in a b1 b2 kernels server; do
    local file=.gpu/$name.tar.xz site=$peers
    case $name in kernels | server) site=$ours ;; esac
    [ ! -f $file ] || [ -f "$work/$name.unpacked" ] || { tar xJf $file -C $site && touch "$work/$name.unpacked"; } &
  done
  [ ! -f .gpu/peer_kernels.tar.xz ] || tar xJf .gpu/peer_kernels.tar.xz -C "$HOME" &
  wait
  # The client says its version by its package's metadata.
  mkdir -p $ours/covey-0.1.0.dist-info
  printf 'Metadata-Version: 2.1\nName: covey\nVersion: 0.1.0\n' >$ours/covey-0.1.0.dist-info/METADATA
  echo "unpacked: $(cd "$work" && echo *.unpacked)"
}

say() { # NAME SECONDS COMMAND…: figures survive the command's end by time.
  local name=$1 limit=$2 began=$SECONDS; shift 2
  timeout -k 10 "$limit" "$@" 2>&1 | tee -a "$work/$name.log" "$out/$name.log" |
    grep --line-buffered -aE '^(RESULT|LIMIT|==|part|ready|covey:|model|Traceback|.*(Error|error:|kernels:))' | cut -c 1-600
  echo "== $name: exit ${PIPESTATUS[0]}, $((SECONDS - began)) s" | tee -a "$work/$name.log"
}

theirs() { # NAME SECONDS SCRIPT ARGUMENT…
  local name=$1 limit=$2; shift 2
  say "$name" "$limit" env PYTHONPATH=$peers VLLM_USE_FLASHINFER_SAMPLER=0 VLLM_DEEP_GEMM_WARMUP=skip VLLM_NO_USAGE_STATS=1 \
    python3 "$@"
}

covey() { # NAME PROMPTS-OF PROFILE MODEL ARGUMENT…
  local name=$1 whose=$2 profile=$3 folder=$4; shift 4
  say "$name-$whose" "${COVEY_SECONDS:-300}" env DG_JIT_CACHE_DIR=$root/deep_gemm_cache \
    PYTHONPATH="$PWD/engine:$PWD/storage:$PWD/planner:$PWD/server:$PWD/clients/python:$ours" \
    python3 bench/end_to_end.py "$folder" --name "$name" --prompts-of "$whose" --profile "$profile" \
    --repeats "${REPEATS:-3}" ${ONLY:+--only "$ONLY"} "$@"
}

tokenizer() { # FOLDER: wherever an archive brought it.
  local from; for from in $peers $ours; do [ ! -d $from/qwen3tok ] || { cp $from/qwen3tok/* "$1"; return; }; done
  echo "no tokenizer is unpacked"
}

checkpoint() { # FOLDER [ARGUMENT]
  [ -f "$1/model.safetensors" ] || say model 120 python3 bench/gpu/random_model.py "$@"
  tokenizer "$1"
}

summary() {
  python3 bench/peers/summary.py bench/peers/limits.txt "$work"/*.log | tee "$out/summary.md"
  nvidia-smi --query-gpu=name,power.draw,clocks.sm,temperature.gpu --format=csv,noheader
}

keep() { # Compiled kernels, small enough to be carried next time as .gpu/peer_kernels.tar.xz.
  (cd "$HOME" && XZ_OPT=-1 timeout 30 tar cJf "$out/peer_kernels.tar.xz" "${caches[@]}" 2>/dev/null)
  [ "$(stat -c %s "$out/peer_kernels.tar.xz")" -lt 16000000 ] || rm "$out/peer_kernels.tar.xz"
}

for step in "$@"; do case $step in
  unpack) unpack ;;
  model) checkpoint $model-fp8 ;;
  tables) checkpoint $model-fp8; [ -d $work/tables ] || say tables 60 python3 bench/peers/write_tables.py $work/tables $model-fp8/tokenizer.json ;;
  compile) theirs compile "${COMPILE_SECONDS:-200}" bench/peers/compile.py ;;
  quail)
    theirs quail "${QUAIL_SECONDS:-540}" bench/peers/peer.py quail $model-fp8 $work/tables --repeats "${REPEATS:-2}" ${ONLY:+--only "$ONLY"}
    keep ;;
  vllm)
    theirs vllm "${VLLM_SECONDS:-360}" bench/peers/peer.py vllm $model-fp8 $work/tables --repeats "${REPEATS:-2}" \
      --only "${ONLY:-filter,join_claims,traces}" --once "${ONCE-join_terms}" ;;
  covey | covey-peer) checkpoint $model-bf16 --bfloat16 ;;&
  covey) covey covey own qwen3_short $model-bf16 --dtype fp8 ;;
  covey-peer) covey covey peer bench/peers/quail.toml $model-bf16 --dtype fp8 ;;
  blocks | blocks-peer) checkpoint $model-fp8 ;;&
  blocks) covey covey-blocks own qwen3_short $model-fp8 ;;
  blocks-peer) covey covey-blocks peer bench/peers/quail.toml $model-fp8 ;;
  summary) summary ;;
  *) echo "no step $step"; exit 2 ;;
esac; done
