// Notes functions of the loaded NCCL that this recorder does not wrap, so that their calls are not recorded. Written
// into the ring's header once, when the first communicator is created.
#pragma once

namespace lockstep::recorder {

// `in_nccl` is any function in that library. Called only once, not for every NCCL call.
void NoteUnwrapped(const void* in_nccl) noexcept;

}  // namespace lockstep::recorder
