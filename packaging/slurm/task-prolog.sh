#!/bin/sh
# Slurm TaskProlog: Slurm puts the output into the environment of every task. A job opts out with LOCKSTEP=0.
trap 'exit 0' EXIT  # Slurm does not start a task whose prolog fails
[ "${LOCKSTEP:-1}" = 0 ] && exit 0
here=$(dirname "$0")
settings=${LOCKSTEP_SLURM_ENVIRONMENT:-$here/environment}
[ -r "$settings" ] && . "$settings"
library=${LOCKSTEP_LIBRARY:-/usr/lib/liblockstep.so}
# If the library were missing, every program of the job would print an error.
[ -r "$library" ] || exit 0
host=${SLURMD_NODENAME:-$(uname -n)}
echo "export LOCKSTEP_HOST=$host"
echo "export LOCKSTEP_DIR=${LOCKSTEP_SLURM_RINGS:-/dev/shm/lockstep-slurm}/$host"
case ":$LD_PRELOAD:" in
  *":$library:"*) ;;
  *) echo "export LD_PRELOAD=$library${LD_PRELOAD:+:$LD_PRELOAD}" ;;
esac
