// Sets environment variables in tests. Tests whose threads read the environment must not use this.
#pragma once

#include <stdlib.h>

#include <optional>
#include <string>

namespace lockstep::support {

// Sets or unsets a variable, and restores the old value in its destructor.
class EnvironmentVariable {
 public:
  EnvironmentVariable(const std::string& name, const std::optional<std::string>& value) : name_(name) {
    if (const char* before = getenv(name.c_str())) before_ = before;
    Put(value);
  }
  ~EnvironmentVariable() { Put(before_); }
  EnvironmentVariable(const EnvironmentVariable&) = delete;
  EnvironmentVariable& operator=(const EnvironmentVariable&) = delete;

 private:
  void Put(const std::optional<std::string>& value) const {
    value ? setenv(name_.c_str(), value->c_str(), 1) : unsetenv(name_.c_str());
  }

  const std::string name_;
  std::optional<std::string> before_;
};

}  // namespace lockstep::support
