#include "analyzer/formats/fr/groups.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "analyzer/formats/fr/members.h"
#include "analyzer/formats/fr/names.h"
#include "analyzer/formats/fr/state.h"
#include "analyzer/formats/fr/text.h"
#include "analyzer/util/printable.h"

namespace lockstep::fr {
namespace {

uint64_t Mix(uint64_t hash, uint64_t value) {
  hash = (hash ^ value) * 0x9e3779b97f4a7c15ull;
  return hash ^ (hash >> 31);
}

uint64_t IdentityHash(const std::string& name, const MemberList& list) {
  std::vector<int32_t> members = list.ranks();
  std::sort(members.begin(), members.end());
  uint64_t hash = 0x9ae16a3b2f90404full;
  for (char c : name) hash = Mix(hash, static_cast<uint8_t>(c));
  hash = Mix(hash, 0x100);
  for (int32_t member : members) hash = Mix(hash, static_cast<uint32_t>(member));
  return hash;
}

// The counters of collectives, and of sends and receives, according to the dump's entries: for one group, or for all
// groups with the same description.
struct Counters {
  bool seen = false;
  int64_t collectives = kUnknown, p2ps = kUnknown;

  void Add(const UsedGroup& used) {
    seen = true;
    collectives = std::max(collectives, used.collectives);
    if (used.has_p2p || used.p2ps > 0) p2ps = std::max(p2ps, used.p2ps);
  }
};

struct Group {
  std::string name, desc;
  MemberList members;
  bool inferred = false;
  bool believed = true;
  bool may_have_more = false;
  uint64_t hash = 0;
  int64_t first_seq = 1;
  Counters counters;
  // The last enqueued number of every rank's status; kNone if the ranks differ. Used if there are no entries.
  int64_t same_enqueued = kUnknown;
};

// One rank's membership in a group.
struct Link {
  uint32_t group = kNoIndex;
  uint32_t used = kNoIndex;  // index into FileData::used
  const GroupStatus* status = nullptr;
};

class Merger {
 public:
  Merger(std::vector<FileData>* files, Bundle* bundle) : files_(*files), bundle_(*bundle), links_(files->size()) {}

  void Run(std::vector<std::vector<uint32_t>>* operation_memberships) {
    ShareLists();
    JoinNames();
    CollectClaims();
    LinkUsed();
    LinkUnlisted();
    LinkSilent();
    LinkStatuses();
    CountAll();
    Build(operation_memberships);
  }

 private:
  // Makes equal lists one list, which its address identifies.
  void ShareLists() {
    absl::flat_hash_set<MemberList> distinct;
    absl::flat_hash_map<const std::vector<int32_t>*, MemberList> shared;  // by the address of each list of a file
    for (FileData& file : files_) {
      for (GroupClaim& claim : file.claims) {
        const auto [at, added] = shared.try_emplace(&claim.members.ranks());
        if (added) at->second = *distinct.insert(claim.members).first;
        claim.members = at->second;
      }
    }
  }

  uint32_t FindGroup(const std::string& name, const MemberList& members) {
    const auto known = by_list_.find({&members.ranks(), name});
    if (known != by_list_.end()) return known->second;
    uint64_t hash = IdentityHash(name, members);
    std::vector<uint32_t>& bucket = by_hash_[hash];
    for (uint32_t at : bucket) {
      if (groups_[at].name == name && groups_[at].members == members) return at;
    }
    uint32_t at = static_cast<uint32_t>(groups_.size());
    Group group;
    group.name = name;
    group.members = members;
    group.hash = hash;
    groups_.push_back(std::move(group));
    bucket.push_back(at);
    by_list_[{&groups_[at].members.ranks(), name}] = at;
    return at;
  }

  // Each process numbers its groups itself, so one group's name differs in a process that created additional groups. If
  // each file lists at most one group with these members and this description, all of them are one group.
  void JoinNames() {
    struct Claimed {
      std::set<std::string> names;
      std::vector<std::pair<FileData*, GroupClaim*>> claims;
    };
    std::map<std::pair<const std::vector<int32_t>*, std::string>, Claimed> groups;
    for (FileData& file : files_) {
      for (GroupClaim& claim : file.claims) {
        Claimed& group = groups[{&claim.members.ranks(), claim.desc}];
        group.names.insert(claim.name);
        group.claims.emplace_back(&file, &claim);
      }
    }
    for (auto& [key, group] : groups) {
      const auto twice = std::adjacent_find(group.claims.begin(), group.claims.end(),
                                            [](const auto& a, const auto& b) { return a.first == b.first; });
      if (group.names.size() < 2 || twice != group.claims.end()) continue;
      const std::string name = absl::StrCat(*group.names.begin(), " or ", *group.names.rbegin());
      for (auto& [file, claim] : group.claims) {
        for (UsedGroup& used : file->used) {
          if (used.name == claim->name && !used.local_id_only) used.name = name;
        }
        claim->name = name;
      }
    }
  }

  void CollectClaims() {
    claimed_.resize(files_.size());
    for (size_t f = 0; f < files_.size(); f++) {
      for (const GroupClaim& claim : files_[f].claims) {
        uint32_t at = FindGroup(claim.name, claim.members);
        claimed_[f].push_back(at);
        Group& group = groups_[at];
        if (group.desc.empty() || group.desc == "undefined") group.desc = claim.desc;
        if (!group.members.Contains(files_[f].rank.rank)) group.believed = false;
      }
    }
    for (size_t f = 0; f < files_.size(); f++) {
      size_t refused = 0;
      std::string first;
      for (uint32_t at : claimed_[f]) {
        if (groups_[at].believed) {
          links_[f].push_back({at});
        } else if (refused++ == 0) {
          first = Printable(groups_[at].name, kMostNameColumns);
        }
      }
      if (refused > 0) {
        files_[f].problems.push_back(
            {.path = files_[f].rank.path,
             .text = absl::StrCat(refused, " groups of pg_config (the first: '", first,
                                  "') do not list the rank of every file that contains them. Either they count ranks "
                                  "inside the group, or a file has the wrong name; the operations show the members"),
             .rank = files_[f].rank.rank,
             .like = "groups without the file's rank"});
      }
    }
    for (uint32_t at = 0; at < groups_.size(); at++) {
      if (groups_[at].believed) by_name_[groups_[at].name].push_back(at);
    }
  }

  // Returns the believed group of pg_config that the file's entries refer to; kNoIndex if there is none, or several.
  uint32_t Resolve(size_t f, const UsedGroup& used) {
    for (const Link& link : links_[f]) {
      if (groups_[link.group].name == used.name && !used.local_id_only) return link.group;
    }
    auto named = by_name_.find(used.name);
    if (named == by_name_.end()) return kNoIndex;
    uint32_t found = kNoIndex;
    for (int pass = 0; pass < 2; pass++) {
      for (uint32_t at : named->second) {
        if (!groups_[at].members.Contains(files_[f].rank.rank)) continue;
        if (pass == 1 && groups_[at].desc != used.desc) continue;
        if (found != kNoIndex) {
          found = kNoIndex - 1;
          break;
        }
        found = at;
      }
      if (found < kNoIndex - 1) return found;
      if (found == kNoIndex) return kNoIndex;
      found = kNoIndex;
    }
    return kNoIndex;
  }

  void LinkUse(size_t f, uint32_t group, uint32_t used) {
    for (Link& link : links_[f]) {
      if (link.group == group && link.used == kNoIndex) {
        link.used = used;
        return;
      }
    }
    Link link;
    link.group = group;
    link.used = used;
    links_[f].push_back(link);
  }

  void LinkUsed() {
    for (size_t f = 0; f < files_.size(); f++) {
      for (uint32_t u = 0; u < files_[f].used.size(); u++) {
        const UsedGroup& used = files_[f].used[u];
        uint32_t at = Resolve(f, used);
        if (at != kNoIndex) {
          if (groups_[at].desc.empty()) groups_[at].desc = used.desc;
          LinkUse(f, at, u);
        } else {
          unlisted_[{used.name, used.desc}].push_back({f, u});
        }
      }
    }
  }

  void LinkUnlisted() {
    int32_t job_size = 0;
    for (const Group& group : groups_) {
      if (!group.believed) continue;
      for (int32_t member : group.members) job_size = std::max(job_size, member + 1);
    }
    for (const FileData& file : files_)
      job_size = std::max({job_size, file.rank.rank + 1, file.rank.newest_group_size, file.rank.world_size});
    std::vector<int32_t> silent;
    size_t f = 0;
    for (int32_t rank = 0; rank < job_size; rank++) {
      if (f < files_.size() && files_[f].rank.rank == rank) {
        if (files_[f++].rank.ops.empty()) silent.push_back(rank);
      } else {
        silent.push_back(rank);
      }
    }
    std::vector<UnlistedGroup> unlisted;
    for (const auto& [key, uses] : unlisted_) {
      UnlistedGroup group;
      group.name = key.first;
      group.desc = key.second;
      for (const auto& [file, u] : uses) {
        const UsedGroup& used = files_[file].used[u];
        group.users.push_back(files_[file].rank.rank);
        group.group_ranks.push_back(used.own_group_rank);
        group.size_hint = std::max(group.size_hint, used.size_hint);
        group.counted_inside |= used.counted_inside;
      }
      unlisted.push_back(std::move(group));
    }
    const bool sized =
        std::any_of(files_.begin(), files_.end(), [](const FileData& file) { return file.rank.world_size > 0; });
    InferMembers(silent, job_size, sized, &unlisted);
    size_t next = 0;
    for (const auto& [key, uses] : unlisted_) {
      const UnlistedGroup& group = unlisted[next++];
      uint32_t at = FindGroup(group.name, group.members);
      groups_[at].desc = group.desc;
      groups_[at].inferred = true;
      groups_[at].believed = true;
      for (const auto& [file, u] : uses) LinkUse(file, at, u);
    }
  }

  // Returns whether the file shows that its rank has made no call.
  bool MadeNoCall(const FileData& file) const {
    return file.lists_calls && file.rank.ops.empty() && file.statuses.empty() && !file.rank.damaged &&
           !some_only_active_;
  }

  // gloo lists a group only if the rank has used it. Adds the groups that other files list for ranks without a call.
  void LinkSilent() {
    some_only_active_ = std::ranges::any_of(files_, [](const FileData& file) { return file.rank.only_active; });
    absl::flat_hash_map<int32_t, size_t> silent;  // by rank: index of the file
    for (size_t f = 0; f < files_.size(); f++) {
      if (MadeNoCall(files_[f])) silent[files_[f].rank.rank] = f;
    }
    for (uint32_t at = 0; at < groups_.size() && !silent.empty(); at++) {
      if (!groups_[at].believed) continue;
      for (const int32_t member : groups_[at].members) {
        const auto found = silent.find(member);
        if (found == silent.end()) continue;
        std::vector<Link>& links = links_[found->second];
        if (std::ranges::none_of(links, [&](const Link& link) { return link.group == at; })) links.push_back({at});
      }
    }
  }

  using Witnesses = std::map<std::string, std::map<int64_t, std::string>>;  // signature -> pg_id -> description

  void LinkStatuses() {
    for (size_t f = 0; f < files_.size(); f++) {
      for (Link& link : links_[f]) {
        if (link.used != kNoIndex) link.status = StatusOf(files_[f], files_[f].used[link.used]);
      }
    }
    Witnesses witnesses;
    for (size_t f = 0; f < files_.size(); f++) AddWitness(f, &witnesses);
    for (size_t f = 0; f < files_.size(); f++) {
      if (!LinkByOrder(f, witnesses) && !LinkLast(f)) LinkByWitness(f, witnesses);
    }
  }

  // Returns whether pg_config and pg_status list equally many groups.
  bool SameCount(size_t f) const { return links_[f].size() == files_[f].statuses.size(); }

  // Links groups by order, because they are numbered and named in the order of creation. Returns false, and links
  // nothing, if the counts differ, a name is not a unique number, or entries contradict or do not confirm the order.
  bool LinkByOrder(size_t f, const Witnesses& witnesses) {
    if (!SameCount(f)) return false;
    const auto known = witnesses.find(Signature(f));
    std::vector<std::pair<int64_t, Link*>> by_number;
    for (Link& link : links_[f]) {
      int64_t number = -1;
      if (!ParseNumber(groups_[link.group].name, &number) || number < 0) return false;
      by_number.push_back({number, &link});
    }
    std::sort(by_number.begin(), by_number.end());
    const std::vector<GroupStatus>& statuses = files_[f].statuses;
    for (size_t i = 0; i < by_number.size(); i++) {
      if (i > 0 && by_number[i].first == by_number[i - 1].first) return false;
      const Link& link = *by_number[i].second;
      if (link.status != nullptr && link.status != &statuses[i]) return false;
      // If entries use this group but its pg_id is unknown, the order is uncertain.
      if (link.used != kNoIndex && link.status == nullptr) return false;
      if (known == witnesses.end()) continue;
      const auto said = known->second.find(statuses[i].pg_id);
      if (said != known->second.end() && !said->second.empty() && said->second != groups_[link.group].desc)
        return false;
    }
    for (size_t i = 0; i < by_number.size(); i++) by_number[i].second->status = &statuses[i];
    return true;
  }

  bool LinkLast(size_t f) {
    if (!SameCount(f)) return false;
    Link* open = nullptr;
    for (Link& link : links_[f]) {
      // The group of all ranks is created before all others.
      if (link.status == nullptr && link.used == kNoIndex && groups_[link.group].desc == "default_pg" &&
          groups_[link.group].name == "0") {
        const GroupStatus& first = files_[f].statuses[0];
        if (first.pg_id == 0 && !Taken(f, &first)) link.status = &first;
      }
      if (link.status != nullptr) continue;
      if (open != nullptr || link.used != kNoIndex) return false;
      open = &link;
    }
    if (open == nullptr) return true;
    for (const GroupStatus& status : files_[f].statuses) {
      if (!Taken(f, &status)) open->status = &status;
    }
    return true;
  }

  bool Taken(size_t f, const GroupStatus* status) const {
    return std::any_of(links_[f].begin(), links_[f].end(), [&](const Link& link) { return link.status == status; });
  }

  // Returns the rank's pg_ids and group descriptions; empty if the counts differ or a description is not unique. Ranks
  // with equal signatures created the same kinds of groups.
  std::string Signature(size_t f) const {
    if (!SameCount(f)) return "";
    std::vector<std::string> descs;
    for (const Link& link : links_[f]) descs.push_back(groups_[link.group].desc);
    std::sort(descs.begin(), descs.end());
    if (std::adjacent_find(descs.begin(), descs.end()) != descs.end()) return "";
    std::string out;
    for (const GroupStatus& status : files_[f].statuses) absl::StrAppend(&out, status.pg_id, ",");
    for (const std::string& desc : descs) absl::StrAppend(&out, desc.size(), ":", desc);
    return out;
  }

  void AddWitness(size_t f, Witnesses* witnesses) const {
    std::string signature = Signature(f);
    if (signature.empty()) return;
    for (const Link& link : links_[f]) {
      if (link.used == kNoIndex || link.status == nullptr) continue;
      const std::string& desc = groups_[link.group].desc;
      auto [at, added] = (*witnesses)[signature].try_emplace(link.status->pg_id, desc);
      if (!added && at->second != desc) at->second.clear();
    }
  }

  void LinkByWitness(size_t f, const Witnesses& witnesses) {
    auto known = witnesses.find(Signature(f));
    if (known == witnesses.end()) return;
    for (const auto& [id, desc] : known->second) {
      if (desc.empty()) return;  // the descriptions differ, so the creation order was not the same
    }
    for (const GroupStatus& status : files_[f].statuses) {
      auto said = known->second.find(status.pg_id);
      if (said == known->second.end() || Taken(f, &status)) continue;
      for (Link& link : links_[f]) {
        if (link.status == nullptr && link.used == kNoIndex && groups_[link.group].desc == said->second) {
          link.status = &status;
        }
      }
    }
  }

  void CountAll() {
    for (size_t f = 0; f < files_.size(); f++) {
      for (const Link& link : links_[f]) {
        Group& group = groups_[link.group];
        if (link.used != kNoIndex) {
          const UsedGroup& used = files_[f].used[link.used];
          group.counters.Add(used);
          by_desc_[group.desc].Add(used);
          if (used.collective_zero) group.first_seq = 0;
          group.may_have_more |= used.may_have_more;
        }
        if (link.status != nullptr) {
          int64_t enqueued = link.status->enqueued;
          if (group.same_enqueued == kUnknown) group.same_enqueued = enqueued;
          if (group.same_enqueued != enqueued) group.same_enqueued = kNone;
        }
      }
    }
  }

  Progress StatusProgress(const Group& group, const GroupStatus& status, bool start_recorded) {
    const Counters& own = group.counters;
    const Counters& siblings = by_desc_[group.desc];
    int counter = 0;
    if (own.seen) {
      counter = own.p2ps == kUnknown ? 1 : NearerCounter(status.enqueued, own.collectives, own.p2ps);
    } else if (siblings.seen) {
      counter = siblings.p2ps == kUnknown ? 1 : NearerCounter(status.enqueued, siblings.collectives, siblings.p2ps);
    } else if (group.same_enqueued == status.enqueued) {
      // No entry shows which counter this is. Collectives have the same number on all ranks; sends and receives usually
      // do not.
      counter = 1;
    }
    if (status.enqueued < 0 && own.p2ps == kUnknown && siblings.p2ps == kUnknown) counter = 1;
    // No member completes a collective that others have not issued, so a higher number counts sends and receives.
    if (counter == 1 && own.p2ps > 0 && status.completed > own.collectives)
      counter = status.completed <= own.p2ps ? 2 : 0;
    if (counter == 0) return {};
    Progress out = FromStatus(status, counter == 2, start_recorded);
    if (status.completed != status.enqueued && own.p2ps != kUnknown &&
        NearerCounter(status.completed, own.collectives, own.p2ps) != counter) {
      out.completed = out.p2p_completed = kUnknown;
    }
    if (counter == 1 && own.p2ps == kUnknown && siblings.p2ps == kUnknown) {
      out.p2p_issued = out.p2p_started = out.p2p_completed = kNone;
    }
    return out;
  }

  void Build(std::vector<std::vector<uint32_t>>* operation_memberships) {
    std::vector<bool> wanted(groups_.size());
    for (const std::vector<Link>& links : links_) {
      for (const Link& link : links) wanted[link.group] = true;
    }
    std::vector<std::pair<std::string, uint32_t>> order;
    for (uint32_t at = 0; at < groups_.size(); at++) {
      if (!wanted[at]) continue;
      order.push_back({absl::StrCat(Printable(groups_[at].name, kMostNameColumns), "/",
                                    absl::Hex(groups_[at].hash, absl::kZeroPad16)),
                       at});
    }
    std::sort(order.begin(), order.end());
    std::vector<uint32_t> comm_of(groups_.size(), kNoIndex);
    bundle_.ranks_expected = files_.empty() ? 0 : files_.back().rank.rank + 1;
    for (const FileData& file : files_)
      bundle_.ranks_expected = std::max(bundle_.ranks_expected, file.rank.newest_group_size);
    const std::vector<uint32_t> ordinals = Ordinals();
    for (auto& [id, at] : order) {
      Group& group = groups_[at];
      comm_of[at] = static_cast<uint32_t>(bundle_.comms.size());
      Communicator comm;
      comm.id = id;
      comm.name =
          Printable(group.desc.empty() || group.desc == "undefined" ? group.name : group.desc, kMostNameColumns);
      comm.size = static_cast<int32_t>(group.members.size());
      comm.members = group.members.ranks();
      comm.members_inferred = group.inferred;
      comm.may_have_more = group.may_have_more;
      comm.ordinal = ordinals[at];
      for (int32_t member : comm.members) bundle_.ranks_expected = std::max(bundle_.ranks_expected, member + 1);
      bundle_.comms.push_back(std::move(comm));
    }
    operation_memberships->assign(files_.size(), {});
    for (size_t f = 0; f < files_.size(); f++) BuildRank(f, comm_of, &(*operation_memberships)[f]);
  }

  // Returns the pg_id of each group: the number of groups that the process created before it, if all members agree;
  // otherwise 0.
  std::vector<uint32_t> Ordinals() const {
    constexpr uint32_t kDiffer = UINT32_MAX;
    std::vector<uint32_t> ordinals(groups_.size());
    for (size_t f = 0; f < files_.size(); f++) {
      for (const Link& link : links_[f]) {
        if (link.used == kNoIndex) continue;
        const std::vector<int64_t>& ids = files_[f].used[link.used].pg_ids;
        const bool known = ids.size() == 1 && ids[0] >= 0 && ids[0] < INT32_MAX;
        const uint32_t id = known ? static_cast<uint32_t>(ids[0]) : kDiffer;
        uint32_t& ordinal = ordinals[link.group];
        ordinal = ordinal == 0 || ordinal == id ? id : kDiffer;
      }
    }
    for (uint32_t& ordinal : ordinals) ordinal = ordinal == kDiffer ? 0 : ordinal;
    return ordinals;
  }

  void BuildRank(size_t f, const std::vector<uint32_t>& comm_of, std::vector<uint32_t>* membership_of_used) {
    FileData& file = files_[f];
    membership_of_used->assign(file.used.size(), kNoIndex);
    std::vector<Link>& links = links_[f];
    std::stable_sort(links.begin(), links.end(),
                     [&](const Link& a, const Link& b) { return comm_of[a.group] < comm_of[b.group]; });
    for (const Link& link : links) {
      const Group& group = groups_[link.group];
      // If a file's entries give one group different descriptions, it is still one membership.
      if (!file.rank.memberships.empty() && file.rank.memberships.back().comm == comm_of[link.group]) {
        if (link.used != kNoIndex) {
          (*membership_of_used)[link.used] = static_cast<uint32_t>(file.rank.memberships.size() - 1);
        }
        continue;
      }
      Membership member;
      member.comm = comm_of[link.group];
      member.member_rank = group.members.PlaceOf(file.rank.rank);
      member.state = ring::CommState::kReady;
      member.first_seq = group.first_seq;
      member.local_name =
          link.status != nullptr ? absl::StrCat(link.status->pg_id) : Printable(group.name, kMostNameColumns);
      Progress progress;
      if (link.used != kNoIndex) {
        const UsedGroup& used = file.used[link.used];
        progress = used.progress;
        member.issued_ns = used.newest_issued_ns;
        member.unrecorded = used.unrecorded;
        member.state = used.state;
        member.origin = used.origin;
        (*membership_of_used)[link.used] = static_cast<uint32_t>(file.rank.memberships.size());
        if (!file.rank.only_active && used.first_collective > group.first_seq) {
          member.lost_records = used.first_collective - group.first_seq;
        }
        if (file.rank.damaged && progress.issued > used.collectives && used.collectives >= 0) {
          member.lost_records += progress.issued - used.collectives;
        }
      } else if (link.status != nullptr) {
        progress = StatusProgress(group, *link.status, file.rank.start_recorded);
        if (!file.rank.only_active && progress.issued >= group.first_seq) {
          member.lost_records = progress.issued - group.first_seq + 1;
        }
      } else if (MadeNoCall(file)) {
        progress = {kNone, kNone, kNone, kNone, kNone, kNone};
      }
      member.issued = progress.issued;
      member.started = progress.started;
      member.completed = progress.completed;
      member.p2p_issued = progress.p2p_issued;
      member.p2p_started = progress.p2p_started;
      member.p2p_completed = progress.p2p_completed;
      if (group.desc == "default_pg") file.rank.world_size = static_cast<int32_t>(group.members.size());
      file.rank.memberships.push_back(std::move(member));
    }
  }

  std::vector<FileData>& files_;
  Bundle& bundle_;
  std::vector<std::vector<Link>> links_;
  std::vector<std::vector<uint32_t>> claimed_;
  std::vector<Group> groups_;
  absl::flat_hash_map<uint64_t, std::vector<uint32_t>> by_hash_;
  absl::flat_hash_map<std::pair<const std::vector<int32_t>*, std::string>, uint32_t> by_list_;
  absl::flat_hash_map<std::string, std::vector<uint32_t>> by_name_;
  std::map<std::pair<std::string, std::string>, std::vector<std::pair<size_t, uint32_t>>> unlisted_;
  std::map<std::string, Counters> by_desc_;
  bool some_only_active_ = false;  // a dump contains only unfinished operations, so an empty one proves nothing
};

}  // namespace

void MergeGroups(std::vector<FileData>* files, Bundle* bundle,
                 std::vector<std::vector<uint32_t>>* operation_memberships) {
  Merger(files, bundle).Run(operation_memberships);
}

}  // namespace lockstep::fr
