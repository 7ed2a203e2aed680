#!/bin/sh
# Slurm Prolog: starts this node's agent for a job if no agent runs as a service on the host. In slurm.conf:
#   Prolog=/etc/lockstep/slurm/prolog.sh   Epilog=/etc/lockstep/slurm/epilog.sh   TaskProlog=/etc/lockstep/slurm/task-prolog.sh
#   PrologFlags=Alloc
# It reads LOCKSTEP_COLLECTOR, LOCKSTEP_KEYS and other settings (see `lockstep agent --help`) from /etc/lockstep/slurm/environment, or from the file
# that LOCKSTEP_SLURM_ENVIRONMENT names in slurmd's own environment. Slurm drains a node whose prolog fails, so this one always exits with 0.
trap 'exit 0' EXIT  # even if the settings are not valid shell
here=$(dirname "$0")
settings=${LOCKSTEP_SLURM_ENVIRONMENT:-$here/environment}
set -a
[ -r "$settings" ] && . "$settings"
LOCKSTEP_HOST=${SLURMD_NODENAME:-$(uname -n)}
set +a
run=${LOCKSTEP_SLURM_RUN:-/run/lockstep-slurm}/$LOCKSTEP_HOST
rings=${LOCKSTEP_SLURM_RINGS:-/dev/shm/lockstep-slurm}/$LOCKSTEP_HOST
mkdir -p -m 0755 "$run" || exit 0
# Jobs of several users write in this folder. Each ring's own folder and file are private to its user.
mkdir -p "$rings"
# Anyone can write to /dev/shm. A folder of another user, or a link, must not be opened to all.
for folder in "$(dirname "$rings")" "$rings"; do
  if [ -L "$folder" ] || [ ! -O "$folder" ]; then
    echo "lockstep: $folder does not belong to the prolog's user: not starting an agent" >&2
    exit 0
  fi
done
chmod 1777 "$rings"
# The epilog of another job on this node must not end the agent between the check below and the start of this job.
exec 9>"$run/lock" && flock -w 20 9
touch "$run/jobs.$SLURM_JOB_ID" 2>/dev/null
if [ -s "$run/agent.pid" ] && kill -0 "$(cat "$run/agent.pid")" 2>/dev/null; then exit 0; fi
mkdir -p -m 0700 "$run/runtime"
rm -f "$run/agent.pid"
LOCKSTEP_RUNTIME_DIR=$run/runtime LOCKSTEP_SPOOL=${LOCKSTEP_SPOOL:-$run/spool} \
  setsid sh -c 'echo $$ >"$1.new" && mv "$1.new" "$1" && exec "$2" agent --rings "$3"' agent \
  "$run/agent.pid" "${LOCKSTEP_PROGRAM:-lockstep}" "$rings" </dev/null >>"$run/agent.out" 2>&1 9>&- &
# slurmd kills the prolog's process group when the prolog ends, so the agent must have left that group.
tries=0
while [ ! -s "$run/agent.pid" ] && [ $tries -lt 100 ]; do
  sleep 0.05
  tries=$((tries + 1))
done
exit 0
