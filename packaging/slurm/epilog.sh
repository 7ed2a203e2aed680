#!/bin/sh
# Slurm Epilog: ends this node's agent with the last job that needed it. See prolog.sh.
trap 'exit 0' EXIT
here=$(dirname "$0")
settings=${LOCKSTEP_SLURM_ENVIRONMENT:-$here/environment}
[ -r "$settings" ] && . "$settings"
host=${SLURMD_NODENAME:-$(uname -n)}
run=${LOCKSTEP_SLURM_RUN:-/run/lockstep-slurm}/$host
# Removes the job's own rings as the job's user, so that no other user's rings are removed. A program that reads a ring keeps it open.
as_user=
[ "$(id -u)" = 0 ] && [ "${SLURM_JOB_UID:-0}" != 0 ] && as_user="setpriv --reuid $SLURM_JOB_UID --regid ${SLURM_JOB_GID:-$SLURM_JOB_UID} --clear-groups"
$as_user "${LOCKSTEP_PROGRAM:-lockstep}" clean --dir "${LOCKSTEP_SLURM_RINGS:-/dev/shm/lockstep-slurm}/$host" >/dev/null 2>&1
# Holds the lock, so that no prolog relies on the agent that this script ends (see prolog.sh).
[ -d "$run" ] && exec 9>"$run/lock" && flock -w 20 9
rm -f "$run/jobs.$SLURM_JOB_ID"
for job in "$run"/jobs.*; do
  [ -e "$job" ] && exit 0
done
[ -s "$run/agent.pid" ] && kill "$(cat "$run/agent.pid")" 2>/dev/null
rm -f "$run/agent.pid"
exit 0
