// LOCKSTEP_HELPER=on: a thread in the process that answers questions about it, for watchers whom the system refuses
// ptrace and process_vm_readv. It begins with the first communicator, masks all signals, sleeps until it is asked (one
// wake-up a second else), and only ever reads: the process's memory by a system call, so that what is not mapped is an
// error and no fault, and files of /proc/self. It takes no lock, calls nothing of the host's, and no other thread waits
// for it. Who may write the ring file may ask: the process's own user, and root.
#ifndef LOCKSTEP_RECORDER_CORE_HELPER_H_
#define LOCKSTEP_RECORDER_CORE_HELPER_H_

namespace lockstep::recorder {

// Once; does nothing if it was not requested.
void StartHelper() noexcept;
void ForgetHelper() noexcept;  // in a forked child, whose thread does not exist

}  // namespace lockstep::recorder

#endif  // LOCKSTEP_RECORDER_CORE_HELPER_H_
