// An NCCL job for measurements and hangs; the same source works with the real libraries and the stand-ins.
//   nccl_job --ptx FILE [--ranks-here K | --world N --rank R --id FILE] [--device D] WHAT...
//   WHAT: latency, issue
//         tp, dp            a step's shape: a collective that the next kernel waits for; one parallel to kernels
//         graph             a step that is captured and replayed
//         ways              every kind of collective once
//         absent R, spin R, graph-spin R      hang until killed
// Prints one line of JSON with times in microseconds for each measurement, and "entered" when a hanging rank has issued
// all its calls.
#include <nccl.h>
#include <algorithm>
#include <memory>

#include "programs.h"

namespace {

struct Settings {
  int layers = 16;
  int steps = 60;
  int iterations = 1500;
  unsigned int gemm = 1024;
  size_t bucket = 4 << 20;  // bytes of one layer's collective
  int replays = 411;
};

struct Rank {
  int device = 0;
  ncclComm_t comm = nullptr;
  cudaStream_t compute = nullptr, network = nullptr;
  cudaEvent_t ready = nullptr, reduced = nullptr;
  float *a = nullptr, *b = nullptr, *c = nullptr, *send = nullptr, *recv = nullptr;
  void* cell = nullptr;
  std::unique_ptr<Kernels> kernels;
};

class Job {
 public:
  Job(int argc, char** argv) : ptx_(Option(argc, argv, "--ptx", "kernels.ptx")) {
    settings_.layers = NumberOption(argc, argv, "--layers", settings_.layers);
    settings_.steps = NumberOption(argc, argv, "--steps", settings_.steps);
    settings_.iterations = NumberOption(argc, argv, "--iterations", settings_.iterations);
    settings_.gemm = static_cast<unsigned int>(NumberOption(argc, argv, "--gemm", static_cast<int>(settings_.gemm)));
    settings_.bucket = static_cast<size_t>(NumberOption(argc, argv, "--bucket", static_cast<int>(settings_.bucket)));
    settings_.replays = NumberOption(argc, argv, "--replays", settings_.replays);
    const int here = NumberOption(argc, argv, "--ranks-here", 1);
    world_ = NumberOption(argc, argv, "--world", here);
    first_ = NumberOption(argc, argv, "--rank", 0);
    const int device = NumberOption(argc, argv, "--device", 0);
    ranks_.resize(static_cast<size_t>(world_ == here ? here : 1));
    for (Rank& rank : ranks_) {
      rank.device = device;
      Make(&rank);
    }
    const double begin = NowUs();
    if (ranks_.size() > 1) {
      std::vector<int> devices(ranks_.size(), device);
      std::vector<ncclComm_t> comms(ranks_.size());
      CHECK(ncclCommInitAll(comms.data(), static_cast<int>(comms.size()), devices.data()));
      for (size_t i = 0; i < comms.size(); ++i) ranks_[i].comm = comms[i];
    } else {
      ncclUniqueId id;
      Exchange(Option(argc, argv, "--id", nullptr), &id);
      CHECK(ncclCommInitRank(&ranks_[0].comm, world_, id, first_));
    }
    std::printf("{\"what\": \"init\", \"us\": [%.0f]}\n", NowUs() - begin);
    Reduce(settings_.bucket / sizeof(float));
    Synchronise();
    CheckResult();
  }

  // Runs small all-reduces one at a time, waiting for each.
  void Latency() {
    for (const size_t bytes : {size_t{8}, size_t{64} << 10}) {
      std::vector<double> samples;
      for (int i = -100; i < settings_.iterations; ++i) {
        const double begin = NowUs();
        Reduce(bytes / sizeof(float));
        for (Rank& rank : ranks_) CHECK(cudaStreamSynchronize(rank.network));
        if (i >= 0) samples.push_back(NowUs() - begin);
      }
      PrintSamples("latency", "\"bytes\": " + std::to_string(bytes) + ", ", samples);
    }
    CheckResult();
  }

  // Measures the CPU time of a call, in bursts without waits.
  void Issue() {
    constexpr int kBurst = 32;
    std::vector<double> samples;
    for (int i = -5; i < settings_.iterations / 10; ++i) {
      const double begin = NowUs();
      for (int call = 0; call < kBurst; ++call) Reduce(2);
      const double end = NowUs();
      Synchronise();
      if (i >= 0) samples.push_back((end - begin) / kBurst / static_cast<double>(ranks_.size()));
    }
    PrintSamples("issue", "", samples);
  }

  // Runs kernels and collectives in turn. Either each waits for the previous one (tensor parallelism), or the
  // collectives run in parallel with the kernels, and the step waits for them at its end (data parallelism). Takes one
  // sample per step.
  void Step(bool overlap) {
    std::vector<double> samples;
    for (int step = -10; step < settings_.steps; ++step) {
      const double begin = NowUs();
      for (int layer = 0; layer < settings_.layers; ++layer) {
        for (Rank& rank : ranks_) {
          Use(rank);
          rank.kernels->Gemm(rank.compute, rank.a, rank.b, rank.c, settings_.gemm);
          CHECK(cudaEventRecord(rank.ready, rank.compute));
          CHECK(cudaStreamWaitEvent(rank.network, rank.ready, 0));
        }
        Reduce(settings_.bucket / sizeof(float));
        if (!overlap || layer + 1 == settings_.layers) {
          for (Rank& rank : ranks_) {
            Use(rank);
            CHECK(cudaEventRecord(rank.reduced, rank.network));
            CHECK(cudaStreamWaitEvent(rank.compute, rank.reduced, 0));
          }
        }
      }
      for (Rank& rank : ranks_) CHECK(cudaStreamSynchronize(rank.compute));
      if (step >= 0) samples.push_back(NowUs() - begin);
    }
    PrintSamples(overlap ? "dp" : "tp", "\"operations\": " + std::to_string(settings_.layers) + ", ", samples);
    CheckResult();
  }

  // Captures three collectives and two kernels as PyTorch does, and replays them.
  void Graph() {
    Capture(nullptr);
    std::vector<double> samples;
    for (int replay = 0; replay < settings_.replays; ++replay) {
      const double begin = NowUs();
      CHECK(cudaGraphLaunch(graph_, ranks_[0].network));
      CHECK(cudaStreamSynchronize(ranks_[0].network));
      samples.push_back(NowUs() - begin);
    }
    unsigned long long count = 0;
    CHECK(cudaMemcpy(&count, ranks_[0].cell, sizeof(count), cudaMemcpyDeviceToHost));
    const bool right = count == static_cast<unsigned long long>(settings_.replays) * 2;
    PrintSamples("graph", std::string("\"operations\": 3, \"ok\": ") + (right ? "true, " : "false, "), samples);
    CheckResult();
  }

  void Ways() {
    for (Rank& rank : ranks_) {
      Use(rank);
      const size_t count = 256;
      if (ranks_.size() > 1) break;  // outside a group, one thread may not issue operations of several ranks
      CHECK(ncclAllReduce(rank.send, rank.recv, count, ncclFloat, ncclSum, rank.comm, rank.network));
      CHECK(ncclBroadcast(rank.send, rank.recv, count, ncclFloat, 0, rank.comm, rank.network));
      CHECK(ncclReduce(rank.send, rank.recv, count, ncclFloat, ncclSum, 0, rank.comm, rank.network));
      CHECK(ncclAllGather(rank.send, rank.recv, count, ncclFloat, rank.comm, rank.network));
      CHECK(ncclReduceScatter(rank.send, rank.recv, count, ncclFloat, ncclSum, rank.comm, rank.network));
      CHECK(ncclGroupStart());
      CHECK(ncclSend(rank.send, count, ncclFloat, (first_ + 1) % world_, rank.comm, rank.network));
      CHECK(ncclRecv(rank.recv, count, ncclFloat, (first_ + world_ - 1) % world_, rank.comm, rank.network));
      CHECK(ncclGroupEnd());
    }
    Synchronise();
    std::printf("{\"what\": \"ways\", \"operations\": 7}\n");
  }

  // Rank `culprit` does not issue the 21st operation.
  [[noreturn]] void Absent(int culprit) {
    for (int i = 0; i < 19; ++i) Reduce(1024);
    Synchronise();
    if (first_ != culprit) Reduce(1024);
    Entered();
  }

  // Rank `culprit` runs an endless kernel before the 21st operation.
  [[noreturn]] void Spin(int culprit) {
    for (int i = 0; i < 19; ++i) Reduce(1024);
    Synchronise();
    const Gate gate;
    if (first_ == culprit) ranks_[0].kernels->Spin(ranks_[0].network, gate.device, uint64_t{300} * 1000000000);
    Reduce(1024);
    Entered();
  }

  // Replays a graph with a spinning kernel, which ends at once in all replays except the last.
  [[noreturn]] void GraphSpin(int culprit) {
    const Gate gate;
    gate.Open();
    Capture(&gate);
    for (int replay = 0; replay < settings_.replays; ++replay) CHECK(cudaGraphLaunch(graph_, ranks_[0].network));
    Synchronise();
    if (first_ == culprit) gate.Close();
    CHECK(cudaGraphLaunch(graph_, ranks_[0].network));
    Entered();
  }

  void Finish() {
    if (ranks_.size() > 1) CHECK(ncclGroupStart());
    for (Rank& rank : ranks_) CHECK(ncclCommDestroy(rank.comm));
    if (ranks_.size() > 1) CHECK(ncclGroupEnd());
  }

 private:
  static void Use(const Rank& rank) { CHECK(cudaSetDevice(rank.device)); }

  void Make(Rank* rank) const {
    Use(*rank);
    rank->kernels = std::make_unique<Kernels>(ptx_);
    const size_t matrix = size_t{settings_.gemm} * settings_.gemm;
    const size_t bytes = std::max<size_t>(settings_.bucket, 64 << 10) * static_cast<size_t>(std::max(world_, 1));
    for (float** buffer : {&rank->a, &rank->b, &rank->c})
      CHECK(cudaMalloc(reinterpret_cast<void**>(buffer), matrix * sizeof(float)));
    for (float** buffer : {&rank->send, &rank->recv}) CHECK(cudaMalloc(reinterpret_cast<void**>(buffer), bytes));
    CHECK(cudaMalloc(&rank->cell, 64));
    CHECK(cudaMemset(rank->cell, 0, 64));
    const std::vector<float> ones(std::max(matrix, bytes / sizeof(float)), 1.0f);
    CHECK(cudaMemcpy(rank->a, ones.data(), matrix * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(rank->b, ones.data(), matrix * sizeof(float), cudaMemcpyHostToDevice));
    CHECK(cudaMemcpy(rank->send, ones.data(), bytes, cudaMemcpyHostToDevice));
    CHECK(cudaStreamCreateWithFlags(&rank->compute, cudaStreamNonBlocking));
    CHECK(cudaStreamCreateWithFlags(&rank->network, cudaStreamNonBlocking));
    CHECK(cudaEventCreateWithFlags(&rank->ready, cudaEventDisableTiming));
    CHECK(cudaEventCreateWithFlags(&rank->reduced, cudaEventDisableTiming));
    // Runs every kernel once, because loading a kernel later would wait for running work.
    const Gate gate;
    gate.Open();
    rank->kernels->Tiny(rank->network, rank->cell);
    rank->kernels->Spin(rank->network, gate.device, 1000000);
    rank->kernels->Gemm(rank->network, rank->a, rank->b, rank->c, settings_.gemm);
    CHECK(cudaMemsetAsync(rank->cell, 0, 64, rank->network));
    CHECK(cudaStreamSynchronize(rank->network));
    float sum = 0;
    CHECK(cudaMemcpy(&sum, rank->c + matrix - 1, sizeof(sum), cudaMemcpyDeviceToHost));
    if (sum != static_cast<float>(settings_.gemm)) Die("the matrix product", static_cast<int>(sum), __FILE__, __LINE__);
  }

  // Rank 0 writes the ID to a file and renames the file when it is complete.
  void Exchange(const char* path, ncclUniqueId* id) const {
    if (first_ == 0) {
      CHECK(ncclGetUniqueId(id));
      if (!path) return;
      const std::string temporary = std::string(path) + ".new";
      std::ofstream(temporary, std::ios::binary).write(id->internal, sizeof(id->internal));
      CHECK(std::rename(temporary.c_str(), path));
      return;
    }
    for (int i = 0; i < 6000; ++i) {
      std::ifstream file(path, std::ios::binary);
      if (file.read(id->internal, sizeof(id->internal))) return;
      usleep(10000);
    }
    Die("waiting for rank 0's id", 0, __FILE__, __LINE__);
  }

  void Reduce(size_t count) {
    if (ranks_.size() > 1) CHECK(ncclGroupStart());
    for (Rank& rank : ranks_) {
      CHECK(ncclAllReduce(rank.send, rank.recv, count, ncclFloat, ncclSum, rank.comm, rank.network));
    }
    if (ranks_.size() > 1) CHECK(ncclGroupEnd());
  }

  void Synchronise() {
    for (Rank& rank : ranks_) {
      Use(rank);
      CHECK(cudaStreamSynchronize(rank.network));
      CHECK(cudaStreamSynchronize(rank.compute));
    }
  }

  void CheckResult() {
    for (Rank& rank : ranks_) {
      Use(rank);
      float sum = 0;
      CHECK(cudaMemcpy(&sum, rank.recv + 1, sizeof(sum), cudaMemcpyDeviceToHost));
      if (sum != static_cast<float>(world_)) Die("the sum of an AllReduce", static_cast<int>(sum), __FILE__, __LINE__);
    }
  }

  // One thread captures all ranks of the process: every stream joins the capture of the first rank's stream.
  void Capture(const Gate* gate) {
    Rank& lead = ranks_[0];
    Use(lead);
    Synchronise();
    CHECK(cudaStreamBeginCapture(lead.network, cudaStreamCaptureModeGlobal));
    lead.kernels->Tiny(lead.network, lead.cell);
    for (size_t i = 1; i < ranks_.size(); ++i) {
      CHECK(cudaEventRecord(lead.ready, lead.network));
      CHECK(cudaStreamWaitEvent(ranks_[i].network, lead.ready, 0));
    }
    Reduce(1024);
    if (gate) lead.kernels->Spin(lead.network, gate->device, uint64_t{300} * 1000000000);
    Reduce(1024);
    Reduce(2048);
    for (size_t i = 1; i < ranks_.size(); ++i) {
      CHECK(cudaEventRecord(ranks_[i].reduced, ranks_[i].network));
      CHECK(cudaStreamWaitEvent(lead.network, ranks_[i].reduced, 0));
    }
    lead.kernels->Tiny(lead.network, lead.cell);
    cudaGraph_t captured;
    CHECK(cudaStreamEndCapture(lead.network, &captured));
    CHECK(cudaGraphInstantiateWithFlags(&graph_, captured, 0));
    // Uses this stream, because on the legacy stream the memset would run in parallel with the first replay.
    CHECK(cudaMemsetAsync(lead.cell, 0, 64, lead.network));
    CHECK(cudaStreamSynchronize(lead.network));
  }

  [[noreturn]] void Entered() {
    std::printf("entered\n");
    std::fflush(stdout);
    for (Rank& rank : ranks_) cudaStreamSynchronize(rank.network);
    while (true) pause();
  }

  const char* ptx_;
  Settings settings_;
  int world_ = 1, first_ = 0;
  std::vector<Rank> ranks_;
  cudaGraphExec_t graph_ = nullptr;
};

}  // namespace

int main(int argc, char** argv) {
  Job job(argc, argv);
  for (int i = 1; i < argc; ++i) {
    const std::string what = argv[i];
    if (what.compare(0, 2, "--") == 0) {
      ++i;
    } else if (what == "latency") {
      job.Latency();
    } else if (what == "issue") {
      job.Issue();
    } else if (what == "tp" || what == "dp") {
      job.Step(what == "dp");
    } else if (what == "graph") {
      job.Graph();
    } else if (what == "ways") {
      job.Ways();
    } else if (i + 1 < argc && what == "absent") {
      job.Absent(std::atoi(argv[i + 1]));
    } else if (i + 1 < argc && what == "spin") {
      job.Spin(std::atoi(argv[i + 1]));
    } else if (i + 1 < argc && what == "graph-spin") {
      job.GraphSpin(std::atoi(argv[i + 1]));
    } else {
      std::fprintf(stderr, "nccl_job: unknown: %s\n", argv[i]);
      return 2;
    }
  }
  job.Finish();
  return 0;
}
