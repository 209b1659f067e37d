#!/usr/bin/env bash
# All measurements on a GPU, with JAX and PyTorch and without TensorFlow; see benchmarks/gpu.py.
#   bash tools/gpu.sh --minutes 6 --out FOLDER
#   bash tools/gpu.sh --quick --out FOLDER     tiny sizes, on any machine
set -euo pipefail
cd "$(dirname "$0")/.."
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1 PYTHONWARNINGS=ignore
exec "${PYTHON:-python3}" benchmarks/gpu.py "$@"
