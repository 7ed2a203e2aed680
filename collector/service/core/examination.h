// Lets an operator examine a job without the recorder through all agents, as `lockstep attach` does. Only one
// examination runs at a time, because it stops every thread of the job for a moment.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "collector/service/core/shared.h"

namespace lockstep {

class Examination {
 public:
  explicit Examination(CoreShared* shared) : shared_(*shared) {}

  // Asks the agents, and passes their answers on as they arrive. Returns the reason if this is impossible.
  std::string Begin(const ClientRequest& request, const Address& to);
  // Passes the message on if it answers the running examination; returns whether it does.
  bool Take(const wire::Received& received);
  void Tick();

 private:
  Address to_;
  uint64_t client_request_ = 0, request_ = 0;  // request_ is 0 if none is in progress
  int64_t began_ns_ = 0;
  int64_t left_ = 0;               // number of agents and relays that have not answered yet
  std::set<Address> answered_;     // each sender counts only once
  std::vector<ClientReply> kept_;  // for a client that repeats its request after a reconnection
  size_t kept_bytes_ = 0;
  CoreShared& shared_;
};

}  // namespace lockstep
