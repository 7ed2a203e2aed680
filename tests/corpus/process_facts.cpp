#include "tests/corpus/process_facts.h"

namespace lockstep::corpus {
namespace {

const char kStep[] = "train_step (/opt/train/train.py:288)";
const char kTrain[] = "train (/opt/train/train.py:455)";
const char kMain[] = "<module> (/opt/train/train.py:602)";

ProcessFacts Sleeping(std::vector<std::string> python, std::vector<std::string> native) {
  ProcessFacts facts;
  facts.python_stack = std::move(python);
  facts.python_stack.insert(facts.python_stack.end(), {kTrain, kMain});
  facts.stack = std::move(native);
  facts.stack_later = facts.stack;
  facts.cpu_ns = 0;
  facts.io_bytes = 0;
  return facts;
}

}  // namespace

ProcessFacts WaitingFacts() {
  ProcessFacts facts =
      Sleeping({"item (/opt/train/megatron/core/optimizer/clip_grads.py:97)", kStep},
               {"clock_gettime", "0x7f31c02a11d0 (libcuda.so.1)", "cudaStreamSynchronize (libcudart.so.12)",
                "at::native::_local_scalar_dense_cuda (libtorch_cuda.so)"});
  facts.state = "R";
  facts.cpu_ns = 1'990 * kMilli;
  return facts;
}

ProcessFacts StoppedFacts() {
  ProcessFacts facts = WaitingFacts();
  facts.state = "T";
  facts.cpu_ns = 0;
  return facts;
}

ProcessFacts DataLoaderFacts() {
  return Sleeping(
      {"wait (/usr/lib/python3.11/selectors.py:415)", "_try_get_data (/opt/torch/utils/data/dataloader.py:1251)",
       "__next__ (/opt/torch/utils/data/dataloader.py:733)", "get_batch (/opt/train/data.py:64)", kStep},
      {"__poll (libc.so.6)", "select_poll_poll (python3.11)", "_PyEval_EvalFrameDefault (python3.11)"});
}

ProcessFacts CheckpointFacts(int32_t rank, bool writes) {
  ProcessFacts facts = Sleeping(
      {"write_data (/opt/torch/distributed/checkpoint/filesystem.py:512)", "save (/opt/torch/serialization.py:968)",
       "save_checkpoint (/opt/train/megatron/training/checkpointing.py:411)"},
      {"__write (libc.so.6)", "PyTorchFileWriter::write (libtorch_cpu.so)"});
  facts.state = "D";
  facts.threads_in_d = 1;
  facts.wchan = "nfs_wait_bit_killable";
  if (writes) {
    char file[64];
    __builtin_snprintf(file, sizeof(file), "/checkpoints/iter_0004000/__%d_0.distcp", rank);
    facts.written_files = {file};
    facts.written_mounts = {"/checkpoints (nfs4)"};
  }
  return facts;
}

ProcessFacts GarbageFacts() {
  ProcessFacts facts = Sleeping({"collect (built-in gc)", "step (/opt/train/memory.py:31)", kStep},
                                {"visit_decref (python3.11)", "dict_traverse (python3.11)",
                                 "gc_collect_main (python3.11)", "gc_collect_generations (python3.11)"});
  facts.state = "R";
  facts.cpu_ns = 1'995 * kMilli;
  facts.stack_later = {"visit_reachable (python3.11)", "list_traverse (python3.11)", "gc_collect_main (python3.11)",
                       "gc_collect_generations (python3.11)"};
  return facts;
}

ProcessFacts InterpreterLockFacts() {
  ProcessFacts facts = Sleeping({}, {"__futex_abstimed_wait_common64 (libc.so.6)", "pthread_cond_timedwait (libc.so.6)",
                                     "take_gil (python3.11)", "PyEval_RestoreThread (python3.11)"});
  facts.python_stack.clear();
  return facts;
}

ProcessFacts CompilerFacts() {
  ProcessFacts facts = Sleeping(
      {"compile (/opt/triton/compiler/compiler.py:284)",
       "codegen_and_compile (/opt/torch/_inductor/compile_fx.py:1171)",
       "_compile (/opt/torch/_dynamo/convert_frame.py:662)", kStep},
      {"llvm::FPPassManager::runOnFunction (libtriton.so)", "llvm::legacy::PassManagerImpl::run (libtriton.so)"});
  facts.state = "R";
  facts.cpu_ns = 1'998 * kMilli;
  facts.stack_later = {"llvm::SelectionDAGISel::runOnMachineFunction (libtriton.so)",
                       "llvm::legacy::PassManagerImpl::run (libtriton.so)"};
  return facts;
}

ProcessFacts TeardownFacts() {
  return Sleeping(
      {"destroy_process_group (/opt/torch/distributed/distributed_c10d.py:2146)", "teardown (/opt/train/train.py:518)"},
      {"__futex_abstimed_wait_common64 (libc.so.6)", "c10d::ProcessGroupNCCL::shutdown (libtorch_cuda.so)"});
}

ProcessFacts ExceptionFacts() {
  return Sleeping(
      {"sleep (built-in time)", "wait_for_debugger (/opt/train/train.py:540)", "excepthook (/opt/train/train.py:533)"},
      {"__select (libc.so.6)", "time_sleep (python3.11)"});
}

ProcessFacts ElsewhereFacts() {
  return Sleeping({"acquire (built-in _thread.lock)", "wait (/usr/lib/python3.11/threading.py:327)",
                   "log_metrics (/opt/train/train.py:402)", kStep},
                  {"__futex_abstimed_wait_common64 (libc.so.6)", "acquire_timed (python3.11)"});
}

ProcessFacts InitFacts() {
  return Sleeping({"new_group (/opt/torch/distributed/distributed_c10d.py:4870)",
                   "initialize_model_parallel (/opt/train/megatron/core/parallel_state.py:812)"},
                  {"__poll (libc.so.6)", "bootstrapInit (libnccl.so.2)", "ncclCommInitRankConfig (libnccl.so.2)"});
}

ProcessFacts StoreFacts() {
  return Sleeping({"new_group (/opt/torch/distributed/distributed_c10d.py:4870)",
                   "initialize_model_parallel (/opt/train/megatron/core/parallel_state.py:812)"},
                  {"__poll (libc.so.6)",
                   "c10d::detail::TCPClient::receiveValueWithTimeout<c10d::detail::WaitResponseType> (libtorch_cpu.so)",
                   "c10d::TCPStore::doWait (libtorch_cpu.so)", "c10d::TCPStore::get (libtorch_cpu.so)",
                   "c10d::ProcessGroupNCCL::broadcastUniqueNCCLID (libtorch_cuda.so)"});
}

}  // namespace lockstep::corpus
