#include "tests/jobmodel/layout.h"

namespace lockstep::jobmodel {
namespace {

// Returns which axes (tp, cp, ep, edp, pp) vary within a group of the family.
std::array<bool, 5> Varying(Family family) {
  switch (family) {
    case Family::kWorld: return {true, true, true, true, true};
    case Family::kTp: return {true, false, false, false, false};
    case Family::kCp: return {false, true, false, false, false};
    case Family::kDp: return {false, false, true, true, false};
    case Family::kEp: return {false, false, true, false, false};
    case Family::kEdp: return {false, false, false, true, false};
    case Family::kMp: return {true, true, false, false, true};
    case Family::kPp:
    case Family::kEmb: return {false, false, false, false, true};
  }
  return {};
}

}  // namespace

const char* FamilyName(Family family) {
  static constexpr const char* kNames[] = {"world", "tp", "cp", "pp", "dp", "ep", "edp", "mp", "emb"};
  return kNames[static_cast<size_t>(family)];
}

Place Layout::PlaceOf(int32_t rank) const {
  return {rank % tp, rank / tp % cp, rank / (tp * cp) % dp, rank / (tp * cp * dp)};
}

int32_t Group::Member(int32_t at) const {
  int32_t rank = first;
  for (const Axis& axis : axes) {
    rank += at % axis.size * axis.stride;
    at /= axis.size;
  }
  return rank;
}

std::vector<int32_t> Group::Members() const {
  std::vector<int32_t> members;
  for (int32_t i = 0; i < size; ++i) members.push_back(Member(i));
  return members;
}

std::string Group::Name() const {
  std::string name = FamilyName(family);
  if (family != Family::kWorld) name += "_" + std::to_string(number);
  return name;
}

Group GroupOf(const Layout& layout, Family family, int32_t rank) {
  const std::array<bool, 5> varying = Varying(family);
  const int32_t sizes[] = {layout.tp, layout.cp, layout.ep, layout.dp / layout.ep, layout.pp};
  Group group;
  group.family = family;
  group.size = 1;
  int32_t fixed = 1, stride = 1;
  for (size_t i = 0; i < 5; ++i) {
    const int32_t at = rank / stride % sizes[i];
    if (varying[i]) {
      group.axes[i] = {stride, sizes[i]};
      group.index += at * group.size;
      group.size *= sizes[i];
    } else {
      group.first += at * stride;
      group.number += at * fixed;
      fixed *= sizes[i];
    }
    stride *= sizes[i];
  }
  if (family != Family::kEmb) return group;
  const int32_t last = layout.pp - 1;
  if (last < 1 || (group.index != 0 && group.index != last)) {
    group.size = 0;
    return group;
  }
  group.axes[4] = {group.axes[4].stride * last, 2};
  group.index = group.index == 0 ? 0 : 1;
  group.size = 2;
  return group;
}

std::vector<Group> Groups(const Layout& layout, Family family) {
  std::vector<Group> groups;
  for (int32_t rank = 0; rank < layout.Ranks(); ++rank) {
    Group group = GroupOf(layout, family, rank);
    if (group.size > 0 && group.index == 0) groups.push_back(group);
  }
  return groups;
}

}  // namespace lockstep::jobmodel
