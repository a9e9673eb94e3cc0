#!/usr/bin/env bash
# predicted.sh: on a Hopper machine, what EXPLAIN predicts beside what happens; row-scaled fp8, rates measured at start.
# Libraries come as .gpu/kernels.tar.xz and .gpu/server.tar.xz (bench/gpu/README.md); logs under $OUT.
set -uo pipefail
cd "$(dirname "$0")/../.."
. bench/gpu/setup.sh
timeout "${LIMIT:-330}" python3 bench/predicted.py $model-bf16 --dtype fp8 "$@" 2>&1 | tee "$out/predicted.log"
echo "== ended after $SECONDS s"
