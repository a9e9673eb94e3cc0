# setup.sh: sourced on a Hopper machine; unpacks the libraries, writes the random bf16 model, sets the paths.
out=${OUT:-/tmp/out}; mkdir -p "$out"
site=/tmp/covey_site; model=/tmp/qwen3-4b
if [ ! -d $site/covey-0.1.0.dist-info ]; then
  mkdir -p $site
  for archive in kernels server; do tar xJf .gpu/$archive.tar.xz -C $site & done; wait
  # The client says its version by its package's metadata.
  mkdir -p $site/covey-0.1.0.dist-info
  printf 'Metadata-Version: 2.1\nName: covey\nVersion: 0.1.0\n' >$site/covey-0.1.0.dist-info/METADATA
fi
export PYTHONPATH="$PWD/engine:$PWD/storage:$PWD/planner:$PWD/server:$PWD/clients/python:$PWD/tests:$site"
export PYTHONUNBUFFERED=1 DG_JIT_CACHE_DIR=/tmp/deep_gemm_cache
[ -d $model-bf16 ] || { python3 bench/gpu/random_model.py $model-bf16 --bfloat16; cp $site/qwen3tok/* $model-bf16/; }
echo "set up after $SECONDS s"
