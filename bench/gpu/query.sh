#!/usr/bin/env bash
# query.sh: on a Hopper machine, how busy the device is during whole queries, and with what; row-scaled fp8.
# Libraries come as .gpu/kernels.tar.xz and .gpu/server.tar.xz (bench/gpu/README.md); logs under $OUT.
set -uo pipefail
cd "$(dirname "$0")/../.."
. bench/gpu/setup.sh
timeout 330 python3 bench/profile_query.py $model-bf16 --dtype fp8 --chunks "$@" 2>&1 | tee "$out/query.log" | cut -c1-200
echo "== ended after $SECONDS s"
