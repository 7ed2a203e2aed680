#!/bin/sh
# Instructions the recorder adds to one call, counted by callgrind: two run lengths are compared, so that set-up drops out.
#   recorder_callgrind.sh BUILD_FOLDER
set -eu
build=${1:?usage: recorder_callgrind.sh BUILD_FOLDER}
command -v valgrind >/dev/null || { echo "valgrind is not installed" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT INT TERM

# count PRELOAD CALLS [group] -> instructions
count() {
  LOCKSTEP_DIR="$folder" LOCKSTEP_GPU=off LD_PRELOAD="$1" timeout 300 valgrind --tool=callgrind \
    --callgrind-out-file="$folder/out" --log-file="$folder/log" "$build/bench/recorder_calls" 1 "$2" ${3:-} >/dev/null
  sed -n 's/^summary: //p; s/^totals: //p' "$folder/out" | head -n 1
}

# 11 runs and a tenth of one to warm up.
per_call() {
  short=$(count "$1" 1600 ${2:-}); long=$(count "$1" 17600 ${2:-})
  awk -v s="$short" -v l="$long" 'BEGIN { printf "%.1f", (l - s) / (16000 * 11.1) }'
}

for kind in "" group; do
  plain=$(per_call "" $kind)
  recorded=$(per_call "$build/lib/liblockstep.so" $kind)
  awk -v p="$plain" -v r="$recorded" -v k="${kind:-collective}" \
    'BEGIN { printf "%-10s  plain %6.1f  recorded %6.1f  added %6.1f instructions per call\n", k, p, r, r - p }'
done
