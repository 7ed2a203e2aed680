// Commands for the culprits' processes, in backquotes, made only from recorded facts. Empty if a fact (host, PID) is
// missing or the host's name is invalid.
#pragma once

#include <string>
#include <string_view>

#include "proto/verdict.pb.h"

namespace lockstep {

// "`ssh gpu036 ibstat`". A command with spaces or shell characters must include its quotes.
std::string HostCommand(const Finding& finding, std::string_view command);
// "`ssh gpu036 'dmesg -T | grep -iE "xid|nvlink"'`".
std::string KernelLogCommand(const Finding& finding, std::string_view pattern);
// "`ssh gpu036 kill -CONT 32082`", with the PIDs of the first host.
std::string PidCommand(const Finding& finding, std::string_view command);
// Returns whether the processes of all culprits have ended, so that nobody can examine them any more.
bool AllEnded(const Finding& finding);
// "`ssh gpu036 lockstep evidence 32082`": stacks and state of the first process that is still running. `command`
// replaces `lockstep evidence`.
std::string LookCommand(const Finding& finding, std::string_view command = "lockstep evidence");

// "LEAD: COMMAND". Without a command, "ALONE.", or "LEAD." if `alone` is empty. With a short host name, the first step
// must fit into 66 columns: the third line of the text.
std::string Step(std::string_view lead, const std::string& command, std::string_view alone = "");
// "Check the GPU: `ssh gpu036 'nvidia-smi -i 6; dmesg -T | grep Xid'`".
std::string GpuStep(const Finding& finding);
// Asks for the stacks, or for those of the other threads if a place in the code is known.
std::string LookStep(const Finding& finding);

// "WHEN without the node: `sbatch --exclude=gpu036` (Slurm), `kubectl cordon gpu036` (Kubernetes)". "WHEN." if the
// host is unknown, if there are many hosts, or if the job uses no GPU: then excluding its hosts would not help.
std::string RestartStep(const Finding& finding, std::string_view when);

}  // namespace lockstep
