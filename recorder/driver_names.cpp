#include "recorder/hook.h"

namespace lockstep::recorder {

const HookedName kDriverNames[] = {{nullptr, nullptr, nullptr}};

}  // namespace lockstep::recorder
