// Each rank's calls as the page shows them, from a bundle in memory or from an index file.
#pragma once

#include <cstdint>
#include <vector>

#include "analyzer/formats/lsi/reader.h"
#include "analyzer/model/bundle.h"
#include "analyzer/viewdata/state.h"
#include "proto/view.pb.h"

namespace lockstep {

struct PageCall {
  uint32_t membership = 0;  // index of the rank's membership
  ring::CallKind kind = ring::CallKind::kNone;
  OpState state = OpState::kUnknown;
  int32_t peer = -1;  // member rank
  int64_t seq = kUnknown;
  int64_t enter_ns = 0, started_ns = 0, completed_ns = 0;  // on the rank's clock; 0 if unknown
  uint32_t site = kNoIndex;                                // index into Bundle::strings
};

// Thread-safe.
class CallSource {
 public:
  virtual ~CallSource() = default;
  // Sets *calls to the rank's calls on communicators, oldest first.
  void Get(size_t rank, std::vector<PageCall>* calls) const;

 private:
  virtual void Read(size_t rank, std::vector<PageCall>* calls) const = 0;
};

class BundleCalls : public CallSource {
 public:
  explicit BundleCalls(const Bundle& bundle) : bundle_(bundle) {}

 private:
  void Read(size_t rank, std::vector<PageCall>* calls) const override;
  const Bundle& bundle_;
};

// An index contains no call sites.
class IndexCalls : public CallSource {
 public:
  explicit IndexCalls(const IndexReader& index) : index_(index) {}

 private:
  void Read(size_t rank, std::vector<PageCall>* calls) const override;
  const IndexReader& index_;
};

// Returns what the page needs from an index as a bundle: job, communicators, ranks and memberships, but no calls.
Bundle FrameOfIndex(const IndexReader& index, const ViewFacts& facts);

// The state in which the page draws a call.
class CallStates {
 public:
  CallStates(const Bundle& bundle, const ViewFacts& facts);
  ViewState Of(size_t rank, const PageCall& call) const;

 private:
  const Bundle& bundle_;
  std::vector<bool> waits_;  // indexed by rank
  const OddCalls odd_;
};

}  // namespace lockstep
