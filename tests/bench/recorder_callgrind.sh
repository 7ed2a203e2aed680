#!/bin/sh
# Counts the instructions that the recorder adds to a call, with callgrind. The difference of a long and a short run excludes the start-up.
#   recorder_callgrind.sh BUILD_FOLDER
set -eu
build=${1:?usage: recorder_callgrind.sh BUILD_FOLDER}
command -v valgrind >/dev/null || { echo "valgrind is not installed" >&2; exit 1; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT INT TERM

# count PRELOAD KIND THREADS CALLS MODE -> instructions of the program
count() {
  LOCKSTEP_DIR="$folder" LOCKSTEP_BUDGET=off LOCKSTEP_GPU="$5" LD_PRELOAD="$1" timeout 300 valgrind --tool=callgrind \
    --callgrind-out-file="$folder/out" --log-file="$folder/log" "$build/bench/recorder_calls" "$2" "$3" "$4" >/dev/null
  sed -n 's/^summary: //p; s/^totals: //p' "$folder/out" | head -n 1
}

# The program makes 11 runs, and a tenth of a run to warm up.
per_call() {
  short=$(count "$1" "$2" "$3" 480 "$4"); long=$(count "$1" "$2" "$3" 4800 "$4")
  awk -v s="$short" -v l="$long" -v t="$3" 'BEGIN { printf "%.1f", (l - s) / (4320 * 11.1 * t) }'
}

# added KIND THREADS MODE -> instructions that the recorder adds
added() {
  awk -v p="$(per_call "" "$1" "$2" "$3")" -v r="$(per_call "$build/lib/liblockstep.so" "$1" "$2" "$3")" 'BEGIN { printf "%.0f", r - p }'
}

echo "Instructions added per call to libraries that do nothing (callgrind):"
echo
echo "| LOCKSTEP_GPU | threads | collective | grouped send or receive |"
echo "| --- | --- | --- | --- |"
for threads in 1 2 8; do
  echo "| off | $threads | $(added collective "$threads" off) | $(added group "$threads" off) |"
done
for mode in done full events profiler; do
  echo "| $mode | 1 | $(added collective 1 "$mode") | $(added group 1 "$mode") |"
done
echo
echo "CUDA short list, mean of three calls: $(added cuda 1 off); dlsym of a name that is not ours: $(added dlsym 1 off)."
