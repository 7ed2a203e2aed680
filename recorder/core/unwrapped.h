// What the loaded NCCL has and this recorder does not wrap: calls that nobody will see. Into the ring's header, once,
// when the first communicator is made.
#ifndef LOCKSTEP_RECORDER_CORE_UNWRAPPED_H_
#define LOCKSTEP_RECORDER_CORE_UNWRAPPED_H_

namespace lockstep::recorder {

// `in_nccl`: a function of the library in question. Never on the way of other calls.
void NoteUnwrapped(const void* in_nccl) noexcept;

}  // namespace lockstep::recorder

#endif  // LOCKSTEP_RECORDER_CORE_UNWRAPPED_H_
