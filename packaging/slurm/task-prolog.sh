#!/bin/sh
# Slurm TaskProlog: what it prints goes into the environment of every task. A job opts out with LOCKSTEP=0.
trap 'exit 0' EXIT  # a task whose prolog fails is not started
[ "${LOCKSTEP:-1}" = 0 ] && exit 0
here=$(dirname "$0")
settings=${LOCKSTEP_SLURM_ENVIRONMENT:-$here/environment}
[ -r "$settings" ] && . "$settings"
library=${LOCKSTEP_LIBRARY:-/usr/lib/liblockstep.so}
# A library that is not there would make every program of the job say so.
[ -r "$library" ] || exit 0
host=${SLURMD_NODENAME:-$(uname -n)}
echo "export LOCKSTEP_HOST=$host"
echo "export LOCKSTEP_DIR=${LOCKSTEP_SLURM_RINGS:-/dev/shm/lockstep-slurm}/$host"
case ":$LD_PRELOAD:" in
  *":$library:"*) ;;
  *) echo "export LD_PRELOAD=$library${LD_PRELOAD:+:$LD_PRELOAD}" ;;
esac
