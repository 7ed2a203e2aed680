#include "tests/corpus/dump.h"

#include <fstream>

namespace lockstep::corpus {

int32_t PidOf(const Job& job, int32_t rank) {
  return 20'000 + static_cast<int32_t>(Mix(job.seed + 3, static_cast<uint64_t>(rank / job.gpus_per_host)) % 900'000) +
         rank % job.gpus_per_host * 131;
}

void Damage(std::string* bytes, uint64_t seed) {
  Random random(seed);
  const auto size = static_cast<int64_t>(bytes->size());
  if (random.Chance(0.6)) {
    bytes->resize(static_cast<size_t>(random.Between(size / 10, size * 9 / 10)));
    return;
  }
  const int64_t places = random.Between(1, 4);
  for (int64_t i = 0; i < places; ++i) {
    const int64_t at = random.Between(64 < size ? 64 : 0, size - 1);
    for (int64_t k = at; k < size && k < at + 16; ++k)
      (*bytes)[static_cast<size_t>(k)] = static_cast<char>(random.Next());
  }
}

bool WriteFile(const std::string& path, const std::string& bytes, std::string* error) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (file) return true;
  *error = path + ": could not be written (is the disk full?)";
  return false;
}

}  // namespace lockstep::corpus
