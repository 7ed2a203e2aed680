#!/usr/bin/env bash
# Packs a built lockstep-analyze with every library that it needs but libc's, into a folder that runs on another machine of the same
# architecture with as new a libc: for run.py --analyze, where the analyzer cannot be built beside the GPU.
#   portable.sh BUILD_FOLDER TARGET_FOLDER
set -euo pipefail
program=$1/bin/lockstep-analyze
mkdir -p "$2/lib"
install -s "$program" "$2/lib/analyze"
while read -r library; do
  case $(basename "$library") in
    ld-linux* | libc.so* | libm.so* | libpthread.so* | libdl.so* | librt.so*) ;;
    *) install "$library" "$2/lib/" ;;
  esac
done < <(ldd "$program" | grep -o '/[^ ]*')
cat >"$2/lockstep-analyze" <<'TEXT'
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
LD_LIBRARY_PATH=$here/lib exec "$here/lib/analyze" "$@"
TEXT
chmod +x "$2/lockstep-analyze"
"$2/lockstep-analyze" --version
