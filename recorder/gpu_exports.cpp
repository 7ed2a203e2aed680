// The runtime call that ends a device's contexts: marks and events must not outlive them.
#include "recorder/gpu_marks.h"
#include "recorder/nccl_abi.h"
#include "recorder/real.h"

using namespace lockstep::recorder;

LOCKSTEP_EXPORT int cudaDeviceReset() {
  static RealFunction function = {"cudaDeviceReset"};
  const auto real = reinterpret_cast<int (*)()>(RealCuda(&function, LOCKSTEP_CALLER));
  if (LOCKSTEP_UNLIKELY(real == nullptr)) return 3;  // cudaErrorInitializationError: no CUDA runtime is loaded
  if (!Recording() || !Marking()) return real();
  BeginDeviceReset(CurrentDevice());
  const int result = real();
  EndDeviceReset();
  return result;
}
