// Writes the dumps that readers_test.py exports. Usage: export_dumps FOLDER
#include <cstdio>
#include <string>

#include "analyzer/formats/lsd/writer.h"
#include "analyzer/testing/export_job.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  const lockstep::Bundle bundle = lockstep::MakeExportJob();
  for (size_t first = 0; first < bundle.ranks.size(); first += 2) {
    const std::string path = folder + "/node" + std::to_string(first / 2) + ".lsd";
    if (!lockstep::WriteLsd(bundle, {first, first + 1}, {}, path).ok()) return 1;
  }
  FILE* file = fopen((folder + "/manifest.json").c_str(), "wb");
  if (file == nullptr) return 1;
  fputs(R"({"format":1,"ranks_expected":6,"known_stalled":true,"stalled_ns":30000000000})", file);
  return fclose(file) == 0 ? 0 : 1;
}
