#!/bin/sh
# Enroot hook (also used by pyxis): gives every container the recorder, with any image. Copy it to /etc/enroot/hooks.d/ on the nodes. It mounts
# the library and the folder for rings, and adds the library to LD_PRELOAD. The rings are on the host, where the host's agent sees them and they
# outlive the container. A job opts out with `export LOCKSTEP=0`. Settings are in /etc/lockstep/enroot.env: the variables in docs/recorder.md, and
# LOCKSTEP_LIBRARY and LOCKSTEP_DIR. Enroot does not start a container whose hook fails, so this one always exits with 0.
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
# A ring folder that the job sets (as Slurm's TaskProlog does) takes precedence. Like /dev/shm, it may belong to root and be writable for all.
given=$(value_of LOCKSTEP_DIR)
case $given in /*) [ -d "$given" ] && [ -w "$given" ] && rings=$given ;; esac
mkdir -p -m 700 "$rings" 2>/dev/null
[ -d "$rings" ] && { [ -O "$rings" ] || [ "$rings" = "$given" ]; } || exit 0
# An LD_PRELOAD from the host already contains the library, so the library must exist at that path.
preload=$(value_of LD_PRELOAD)
named=$(printf '%s' "$preload" | tr ': ' '\n\n' | grep '^/.*/liblockstep\.so$' | head -n 1)
{
  [ -r "$settings" ] && grep '^LOCKSTEP_[A-Z_]*=' "$settings" | grep -v -e '^LOCKSTEP_LIBRARY=' -e '^LOCKSTEP_DIR=' |
    while IFS= read -r line; do [ "$(value_of "${line%%=*}")" = "${line#*=}" ] || printf '%s\n' "$line"; done
  [ "$rings" = "$given" ] || printf 'LOCKSTEP_DIR=%s\n' "$rings"
  [ -n "$named" ] || printf 'LD_PRELOAD=%s\n' "$inside${preload:+:$preload}"
} >>"$ENROOT_ENVIRON" 2>/dev/null
inside=${named:-$inside}
mount_once() { # source, target, options
  grep -qF " $2 none " "$ENROOT_MOUNTS" 2>/dev/null || printf '%s %s none %s\n' "$1" "$2" "$3" >>"$ENROOT_MOUNTS" 2>/dev/null
}
# A library with this name in the image takes precedence.
[ -n "$named" ] && [ -e "${ENROOT_ROOTFS:-/nowhere}$named" ] || mount_once "$library" "$inside" x-create=file,bind,ro,nosuid,nodev,private
mount_once "$rings" "$rings" x-create=dir,bind,rw,nosuid,noexec,nodev,private
exit 0
