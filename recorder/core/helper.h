// LOCKSTEP_HELPER=on: a thread in the process that answers questions about the process, for watchers that may not use
// ptrace or process_vm_readv. It starts with the first communicator, masks all signals, and sleeps until there is a
// question (it wakes once a second). It reads only files in /proc/self, and the process's memory through a system call
// that returns an error for unmapped memory. It takes no lock and calls none of the program's code, and no other thread
// waits for it. Only those who may write the ring file can ask questions: the process's user, and root.
#pragma once

namespace lockstep::recorder {

// Starts the helper thread once. Does nothing if the helper is not enabled.
void StartHelper() noexcept;
void ForgetHelper() noexcept;  // in a forked child, which does not have the thread

}  // namespace lockstep::recorder
