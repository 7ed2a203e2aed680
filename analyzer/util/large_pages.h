// Memory allocation for programs that read large recordings.
#pragma once

namespace lockstep {

// Makes the C library use large allocations and huge pages. The data is a few large tables, and the page faults of
// small pages would cost more than reading the data. The C library reads only its environment (GLIBC_TUNABLES), once,
// so this restarts the program with main()'s `argv`. Call it first. Does nothing if GLIBC_TUNABLES is set or the
// restart fails; the program also works without it.
void UseLargePages(char** argv);

}  // namespace lockstep
