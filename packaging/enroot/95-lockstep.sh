#!/bin/sh
# Enroot hook (with pyxis too): gives every container the recorder, whatever its image. Copy it to /etc/enroot/hooks.d/ on the nodes.
# The library and the folder of the rings are mounted, LD_PRELOAD is prepended to; rings lie on the host, where the host's agent sees them
# and where they outlive the container. A job that wants none of it says `export LOCKSTEP=0`.
# Settings: /etc/lockstep/enroot.env, variables that docs/recorder.md names, and LOCKSTEP_LIBRARY, LOCKSTEP_DIR. A hook that fails
# would keep the container from starting: this one never does.
[ -n "$ENROOT_ENVIRON" ] && [ -n "$ENROOT_MOUNTS" ] || exit 0
value_of() { # last value of a variable in the container's environment
  sed -n "s/^$1=//p" "$ENROOT_ENVIRON" 2>/dev/null | tail -n 1
}
settings=${LOCKSTEP_ENROOT_ENVIRONMENT:-/etc/lockstep/enroot.env}
library= rings=
if [ -r "$settings" ]; then
  library=$(sed -n 's/^LOCKSTEP_LIBRARY=//p' "$settings" | tail -n 1)
  rings=$(sed -n 's/^LOCKSTEP_DIR=//p' "$settings" | tail -n 1)
fi
library=${library:-/usr/lib/liblockstep.so}
rings=${rings:-/dev/shm/lockstep-$(id -u)}
inside=/usr/lib/liblockstep.so
[ -r "$library" ] || exit 0
[ -e /etc/lockstep/off ] || [ -e /run/lockstep/off ] && exit 0
case $(value_of LOCKSTEP) in 0 | off | no | false) exit 0 ;; esac
case ${LOCKSTEP-} in 0 | off | no | false) exit 0 ;; esac
case $(value_of LD_PRELOAD) in *liblockstep.so*) exit 0 ;; esac
mkdir -p -m 700 "$rings" 2>/dev/null
[ -d "$rings" ] && [ -O "$rings" ] || exit 0
preload=$(value_of LD_PRELOAD)
{
  [ -r "$settings" ] && grep '^LOCKSTEP_[A-Z_]*=' "$settings" | grep -v -e '^LOCKSTEP_LIBRARY=' -e '^LOCKSTEP_DIR='
  printf 'LOCKSTEP_DIR=%s\n' "$rings"
  printf 'LD_PRELOAD=%s\n' "$inside${preload:+:$preload}"
} >>"$ENROOT_ENVIRON" 2>/dev/null
{
  printf '%s %s none x-create=file,bind,ro,nosuid,nodev,private\n' "$library" "$inside"
  printf '%s %s none x-create=dir,bind,rw,nosuid,noexec,nodev,private\n' "$rings" "$rings"
} >>"$ENROOT_MOUNTS" 2>/dev/null
exit 0
