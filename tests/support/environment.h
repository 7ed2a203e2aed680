// Environment variables of tests. Not for tests with threads that read the environment.
#ifndef LOCKSTEP_TESTS_SUPPORT_ENVIRONMENT_H_
#define LOCKSTEP_TESTS_SUPPORT_ENVIRONMENT_H_

#include <stdlib.h>

#include <optional>
#include <string>

namespace lockstep::support {

// Sets or unsets a variable, and restores it at the end.
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

#endif  // LOCKSTEP_TESTS_SUPPORT_ENVIRONMENT_H_
