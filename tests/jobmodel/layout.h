// The layout of a simulated training job: the degrees of parallelism, the ranks and the groups that they form. Plain
// data that every simulated job of the tests shares.
#ifndef LOCKSTEP_TESTS_JOBMODEL_LAYOUT_H_
#define LOCKSTEP_TESTS_JOBMODEL_LAYOUT_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::jobmodel {

// Families of groups. A rank is in at most one group of each.
enum class Family : uint8_t {
  kWorld,
  kTp,   // tensor parallel
  kCp,   // context parallel
  kPp,   // pipeline parallel
  kDp,   // data parallel
  kEp,   // expert parallel: neighbours of a data-parallel group
  kEdp,  // data parallel of the experts
  kMp,   // model parallel: all ranks of one replica
  kEmb,  // first and last stage, which share the embedding
};
const char* FamilyName(Family family);  // "tp"

// rank = tp + T * (cp + C * (dp + D * pp)), as Megatron numbers ranks.
struct Place {
  int32_t tp = 0, cp = 0, dp = 0, pp = 0;
};

struct Layout {
  int32_t tp = 1, cp = 1, dp = 1, pp = 1;
  int32_t ep = 1;  // divides dp

  int32_t Ranks() const { return tp * cp * pp * dp; }
  Place PlaceOf(int32_t rank) const;
};

struct Group {
  Family family = Family::kWorld;
  int32_t number = 0;  // in its family, ordered by first member
  int32_t index = 0;   // of the rank that was asked for, among the members
  int32_t size = 0;    // 0: the rank is in no group of the family

  int32_t Member(int32_t at) const;
  std::vector<int32_t> Members() const;
  std::string Name() const;  // "world", "tp_3"

  // Members are `first` plus multiples of the strides, the first stride fastest.
  struct Axis {
    int32_t stride = 0, size = 1;
  };
  int32_t first = 0;
  std::array<Axis, 5> axes;
};

// The group of the family that holds the rank.
Group GroupOf(const Layout& layout, Family family, int32_t rank);
// All groups of a family, by number.
std::vector<Group> Groups(const Layout& layout, Family family);

}  // namespace lockstep::jobmodel

#endif  // LOCKSTEP_TESTS_JOBMODEL_LAYOUT_H_
