// Whether NCCL loads this library as its profiler plugin, and how Lockstep requests that. It never replaces a user's
// plugin, because NCCL loads only one.
#pragma once

namespace lockstep::recorder::profiler {

// Call this before the first NCCL call is forwarded. With LOCKSTEP_GPU=profiler, sets NCCL_PROFILER_PLUGIN to this
// library, unless that would displace a user's plugin. Runs once in a process.
void RequestPlugin() noexcept;
// Returns whether NCCL_PROFILER_PLUGIN names this library, because RequestPlugin or the user set it. *note is the
// reason if it does not; null if there is none to report.
bool PluginWillLoad(const char** note) noexcept;

// Called by dlsym for NCCL or another caller: returns whether it may find the plugin's tables. That is allowed in an
// object that NCCL opened by name. In the whole program (NCCL_PROFILER_PLUGIN=STATIC_PLUGIN), it is allowed only with
// LOCKSTEP_GPU=profiler.
bool PluginIsAskedFor() noexcept;

}  // namespace lockstep::recorder::profiler
