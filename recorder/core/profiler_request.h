// Whether NCCL is to load this library as its profiler plugin, and how it is told so. Never in place of a plugin that
// the user chose: NCCL has room for one.
#ifndef LOCKSTEP_RECORDER_CORE_PROFILER_REQUEST_H_
#define LOCKSTEP_RECORDER_CORE_PROFILER_REQUEST_H_

namespace lockstep::recorder::profiler {

// With LOCKSTEP_GPU=profiler, before the host's first call to NCCL goes on: sets NCCL_PROFILER_PLUGIN to this library,
// unless a plugin of the user's would lose its place. Once in the process's life.
void RequestPlugin() noexcept;
// Whether that was done. *note: why not, or null.
bool PluginWillLoad(const char** note) noexcept;

// Called by dlsym, for NCCL or for whoever looks: whether the tables may be found. An object that NCCL opened by name
// is asked for; in the whole program (NCCL_PROFILER_PLUGIN=STATIC_PLUGIN) only with LOCKSTEP_GPU=profiler.
bool PluginIsAskedFor() noexcept;

}  // namespace lockstep::recorder::profiler

#endif  // LOCKSTEP_RECORDER_CORE_PROFILER_REQUEST_H_
