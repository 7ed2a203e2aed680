// This machine, this program and its environment.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lockstep {

// Returns an environment variable; "" if unset.
std::string EnvironmentValue(const char* name);

std::string HostName();

// Returns the path of the running program, from the kernel instead of argv; "" if unknown.
std::string OwnPath();
// The folder of this program, with a slash at the end; "" if unknown.
std::string OwnFolder();

// Returns the folders for keys, in this order: LOCKSTEP_KEYS, ~/.config/lockstep/keys, /etc/lockstep/keys.
std::vector<std::string> KeyFolders();

// TMPDIR, or /tmp if it is not set.
std::string TemporaryFolder();

// Random and never 0; identifies a run of a program.
uint64_t RandomInstance();

}  // namespace lockstep
