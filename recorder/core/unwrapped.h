// Functions of the loaded NCCL that this recorder does not wrap: their calls are not recorded. Written into the ring's
// header once, when the first communicator is created.
#ifndef LOCKSTEP_RECORDER_CORE_UNWRAPPED_H_
#define LOCKSTEP_RECORDER_CORE_UNWRAPPED_H_

namespace lockstep::recorder {

// `in_nccl`: a function of that library. Not called on the path of other calls.
void NoteUnwrapped(const void* in_nccl) noexcept;

}  // namespace lockstep::recorder

#endif  // LOCKSTEP_RECORDER_CORE_UNWRAPPED_H_
