// Whether NCCL loads this library as its profiler plugin, and how it is requested. Never replaces a plugin of the user:
// NCCL has room for one.
#ifndef LOCKSTEP_RECORDER_CORE_PROFILER_REQUEST_H_
#define LOCKSTEP_RECORDER_CORE_PROFILER_REQUEST_H_

namespace lockstep::recorder::profiler {

// With LOCKSTEP_GPU=profiler, before the first NCCL call continues: sets NCCL_PROFILER_PLUGIN to this library, unless
// that would displace a plugin of the user. Runs once a process.
void RequestPlugin() noexcept;
// Whether that was done. *note: the reason if not, or null.
bool PluginWillLoad(const char** note) noexcept;

// Called by dlsym, for NCCL or another caller: whether the tables may be found. Yes for an object that NCCL opened by
// name. In the whole program (NCCL_PROFILER_PLUGIN=STATIC_PLUGIN) only with LOCKSTEP_GPU=profiler.
bool PluginIsAskedFor() noexcept;

}  // namespace lockstep::recorder::profiler

#endif  // LOCKSTEP_RECORDER_CORE_PROFILER_REQUEST_H_
