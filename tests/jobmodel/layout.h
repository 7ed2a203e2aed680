// The layout of a simulated training job: the degrees of parallelism, the ranks and their groups. All simulated jobs of
// the tests share this plain data.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

namespace lockstep::jobmodel {

// Families of groups. A rank is in at most one group of each family.
enum class Family : uint8_t {
  kWorld,
  kTp,   // tensor parallel
  kCp,   // context parallel
  kPp,   // pipeline parallel
  kDp,   // data parallel
  kEp,   // expert parallel: neighbors of a data-parallel group
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
  int32_t number = 0;  // number within its family, ordered by first member
  int32_t index = 0;   // the given rank's place among the members
  int32_t size = 0;    // 0: no group of the family contains the rank

  int32_t Member(int32_t at) const;
  std::vector<int32_t> Members() const;
  std::string Name() const;  // "world", "tp_3"

  // Members are `first` plus multiples of the strides. The first stride varies fastest.
  struct Axis {
    int32_t stride = 0, size = 1;
  };
  int32_t first = 0;
  std::array<Axis, 5> axes;
};

Group GroupOf(const Layout& layout, Family family, int32_t rank);
// Returns all groups of a family, by number.
std::vector<Group> Groups(const Layout& layout, Family family);

}  // namespace lockstep::jobmodel
