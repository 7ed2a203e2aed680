// How a program that reads large recordings takes its memory.
#ifndef LOCKSTEP_ANALYZER_UTIL_LARGE_PAGES_H_
#define LOCKSTEP_ANALYZER_UTIL_LARGE_PAGES_H_

namespace lockstep {

// Asks the C library to take memory in large pieces and of huge pages where the system has them: what is read is a few
// large tables, and the first use of small pages would cost more than reading them. The C library listens to its
// environment alone (GLIBC_TUNABLES), once, so this starts the program anew with `argv`, as main() got it; call it
// first of all. Does nothing where GLIBC_TUNABLES is set, or the program cannot be started anew: everything works
// without.
void UseLargePages(char** argv);

}  // namespace lockstep

#endif  // LOCKSTEP_ANALYZER_UTIL_LARGE_PAGES_H_
