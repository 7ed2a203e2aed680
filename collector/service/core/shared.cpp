#include "collector/service/core/shared.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace lockstep {

// Request numbers contain the instance, so they differ from those of an earlier collector process.
CoreShared::CoreShared(const CoreOptions& options, CoreActions* actions)
    : options(options), actions(actions), request_base_((options.instance & 0x7fffffff) << 32) {}

int64_t CoreShared::Tick(int64_t mono_ns, int64_t real_ns) {
  now = std::max(now, mono_ns);
  const int64_t since = tick_ns_ == 0 ? 0 : now - tick_ns_;
  tick_ns_ = now;
  real_ns_ = real_ns;
  return since;
}

void CoreShared::Work(CoreTask::Lane lane, std::function<void()> run, std::function<void()> done) {
  ++tasks_out_;
  actions->Work({lane, std::move(run), [this, alive = alive_, done = std::move(done)](int64_t at) {
                   if (!*alive) return;
                   --tasks_out_;
                   now = std::max(now, at);
                   done();
                 }});
}

bool CoreShared::Decode(const wire::Message& message, google::protobuf::MessageLite* into) {
  if (wire::DecodeBody(message, into).ok()) return true;
  ++counters.malformed;
  return false;
}

void CoreShared::Send(const Address& to, wire::Type type, const google::protobuf::MessageLite& message) {
  absl::StatusOr<wire::Message> encoded = wire::Encode(type, message);
  if (!encoded.ok()) {
    Say(absl::StrCat("a message could not be sent: ", encoded.status().message()));
    return;
  }
  encoded->header.route = to.route;
  actions->Send(to.peer, *encoded);
}

}  // namespace lockstep
