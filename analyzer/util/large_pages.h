// Memory allocation of a program that reads large recordings.
#ifndef LOCKSTEP_ANALYZER_UTIL_LARGE_PAGES_H_
#define LOCKSTEP_ANALYZER_UTIL_LARGE_PAGES_H_

namespace lockstep {

// Asks the C library for large allocations and huge pages: the data is a few large tables, and the first use of small
// pages would cost more than reading them. The C library reads only its environment (GLIBC_TUNABLES), once, so this
// restarts the program with `argv` of main(). Call it first. Does nothing if GLIBC_TUNABLES is set or the restart
// fails: everything works without.
void UseLargePages(char** argv);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_UTIL_LARGE_PAGES_H_
