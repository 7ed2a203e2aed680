#!/usr/bin/env bash
# Makes kernels.ptx from kernels.cu for GPUs from sm_75 on. Lowers the PTX version, so that drivers from CUDA 10.1 on accept the file.
set -euo pipefail
cd "$(dirname "$0")"
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
"$nvcc" -ptx -arch=compute_75 -Xcompiler -Wall -o kernels.ptx kernels.cu
sed -i -e 's/^\.version .*/.version 6.4/' -e '/^\/\//d' -e 's/[[:space:]]*$//' kernels.ptx
for gpu in sm_75 sm_80 sm_90 sm_100; do
  "$(dirname "$(readlink -f "$nvcc")")/ptxas" -arch=$gpu -o /dev/null kernels.ptx
done
