// Converts between the bundle's values and the dump's messages. Cuts long texts and lists. Omits data that only Flight
// Recorder has, such as Membership::p2p_issued and Rank::timeout_ns.
#pragma once

#include "analyzer/formats/merge.h"
#include "proto/dump.pb.h"

namespace lockstep {

// Encodes how many communicators and operations the rank has, but not these themselves.
RankHeader EncodeRank(const Rank& rank);
Rank DecodeRank(const RankHeader& header);

RankCommunicator EncodeMembership(const Membership& membership, const Communicator& comm, int32_t rank, uint32_t index);
Membership DecodeMembership(const RankCommunicator& message);
CommFacts FactsOf(const RankCommunicator& message);

CommunicatorInfo EncodeComm(const Communicator& comm);
CommFacts FactsOf(const CommunicatorInfo& message);
std::vector<MemberSpan> MembersOf(const CommunicatorInfo& message);

}  // namespace lockstep
