#include "analyzer/report/words/chain.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "analyzer/report/words/reasons.h"

namespace lockstep {
namespace {

// "dp_0, dp_1, dp_2 and 5 more"; "8 groups of 4 ranks" if the groups have no names.
std::string NamesOf(const ChainLink& link) {
  if (link.communicators() == 1) return link.communicator().label();
  if (link.names().empty())
    return absl::StrCat(CountText(link.communicators()), " groups",
                        link.size() > 0 ? absl::StrCat(" of ", Counted(link.size(), "rank", "ranks")) : "");
  return absl::StrCat(absl::StrJoin(link.names(), ", "),
                      link.more_names() > 0 ? absl::StrCat(" and ", CountText(link.more_names()), " more") : "");
}

}  // namespace

void PutIntoWords(ChainLink* link) {
  if (link->what() == ChainLink::SET_UP) link->set_operation("communicator set-up");
  if (link->what() == ChainLink::RENDEZVOUS) link->set_operation("a rendezvous outside NCCL");
  if (link->communicators() > 0) link->mutable_communicator()->set_name(NamesOf(*link));
  std::string text = absl::StrCat(RankNames(link->ranks()), link->ranks_size() == 1 ? " waits" : " wait");
  if (!link->operation().empty()) absl::StrAppend(&text, " in ", link->operation());
  const CommunicatorRef& comm = link->communicator();
  const std::string& name = comm.name().empty() ? comm.id() : comm.name();
  if (!name.empty()) absl::StrAppend(&text, " on ", name);
  if (link->waits_for_size() > 0) absl::StrAppend(&text, " for ", RankNames(link->waits_for()));
  link->set_text(std::move(text));
}

}  // namespace lockstep
