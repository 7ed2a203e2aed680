"""Rebuilds what people posted when their jobs hung or crashed: similar lines of the same software, with other hosts, ranks and numbers.

Each report has a function, or a row of a table such as WATCHDOG, that fills a Case: the files of that user, and what these files show. The seed changes
ranks, hosts, numbers and times. `provenance` links the thread; nothing is copied from it. If the files cannot show which rank is at fault, every rank is a
culprit and `identifiable` is false."""

import os
import pickle
import random

URL = "https://github.com/"
REPORTS = {}  # name: (provenance, family, function)


def report(thread, family):
    """Registers a function that builds the report of that thread."""
    def register(build):
        REPORTS[build.__name__.replace("_", "-")] = (thread if "://" in thread else URL + thread, family, build)
        return build
    return register


class Case:
    """The files of one report. `say` collects the lines of ranks; `finish` writes them into files."""

    def __init__(self, seed):
        self.choose = random.Random(seed)
        self.files, self.lines = {}, []
        self.culprits, self.accept, self.identifiable = None, [], False
        self.job(self.choose.choice((4, 8, 8, 16)))
        self.second = 1_764_000_000 + self.choose.randrange(4_000_000)
        self.sequence = self.choose.choice((self.choose.randrange(5, 90), self.choose.randrange(900, 90_000)))
        self.numel = 64 * self.choose.randrange(1, 400_000)
        self.first_pid = self.choose.randrange(2_000, 3_000_000)
        self.stem = self.choose.choice(("gpu%02d", "node-%d", "a100-%03d", "dgx%d", "ip-10-4-7-%d", "nid%06d"))
        self.first_host = self.choose.randrange(1, 60)

    def job(self, ranks, per_host=None):
        self.ranks, self.per_host = ranks, per_host or min(ranks, self.choose.choice((4, 8)))
        self.culprit = self.choose.randrange(ranks - 1)  # not the last rank, because its absence would leave no gap in the numbers
        self.all = list(range(ranks))

    @property
    def others(self):
        return [rank for rank in self.all if rank != self.culprit]

    def host(self, rank):
        return self.stem % (self.first_host + rank // self.per_host)

    def address(self, rank):
        return "10.21.%d.%d" % (self.first_host, 10 + rank // self.per_host)

    def local(self, rank):
        return rank % self.per_host

    def pid(self, rank):
        return self.first_pid + 7 * rank

    def shuffled(self, ranks):
        return self.choose.sample(list(ranks), len(ranks))

    def glog(self):
        """Returns a time like "1206 18:44:12.715298746"."""
        self.second += self.choose.random() * 0.2
        within = int(self.second) % 86_400
        return "%d%02d %02d:%02d:%02d.%09d" % (self.second // 2_592_000 % 12 + 1, self.second // 86_400 % 28 + 1, within // 3_600,
                                               within // 60 % 60, within % 60, self.choose.randrange(10**9))

    def stamp(self, separator=" "):
        within = int(self.second) % 86_400
        return "2026-%02d-%02d%s%02d:%02d:%02d" % (self.second // 2_592_000 % 12 + 1, self.second // 86_400 % 28 + 1, separator, within // 3_600,
                                                   within // 60 % 60, within % 60)

    def say(self, rank, text):
        """Adds lines of a rank, or of the launcher if `rank` is None."""
        self.lines += [(rank, line) for line in text.rstrip("\n").split("\n")]

    def file(self, name, text):
        self.files[name] = text if isinstance(text, bytes) else text.encode()

    def fault(self, *ranks, accept=()):
        self.culprits, self.accept, self.identifiable = sorted(ranks or [self.culprit]), [sorted(one) for one in accept], True

    def nobody(self, accept=()):
        """States that the files do not show which rank is at fault."""
        self.culprits, self.accept, self.identifiable = self.all, [sorted(one) for one in accept], False

    def healthy(self):
        self.culprits, self.identifiable = [], True

    def finish(self, container="plain"):
        """Writes the lines into one log, or one file per rank or host."""
        if container.startswith("cut"):
            self.finish()
            return self.cut(container == "cut, filled")
        names, out = NAMES.get(container), {}
        for rank, line in self.lines:
            name = names(self, rank) if names and rank is not None else "job.log"
            out.setdefault(name, []).append(line if rank is None or names else PREFIXES[container](self, rank) + line)
        for name, lines in out.items():
            self.file(name, "\n".join(lines) + "\n")
        self.lines = []

    def cut(self, filled):
        """Cuts all lines at the width of a terminal; `filled` pads them with blanks."""
        width = self.choose.choice((80, 116, 137))
        for name, content in self.files.items():
            parts = [line[i:i + width] for line in content.decode().split("\n") for i in range(0, max(len(line), 1), width)]
            self.file(name, "".join(part.ljust(width) + "\n" if filled else part + "\n" for part in parts))


PREFIXES = {
    "plain": lambda c, r: "",
    "quoted": lambda c, r: "> ",
    "indented": lambda c, r: "    ",
    "srun": lambda c, r: "%d: " % r,
    "mpirun": lambda c, r: "[1,%d]<stderr>:" % r,
    "horovodrun": lambda c, r: "[%d]<stderr>:" % r,
    "ray": lambda c, r: "\x1b[36m(WorkerDict pid=%d, ip=%s)\x1b[0m " % (c.pid(r), c.address(r)),
    "tee": lambda c, r: "[default%d]:" % c.local(r),
    "dated": lambda c, r: c.stamp()[:16] + " ",
    "kubectl": lambda c, r: "[pod/llm-worker-%d/pytorch] " % (r // c.per_host),
    "numbered": lambda c, r: "[%d] " % (80_700 + len(c.lines)),
    "bar": lambda c, r: "\rEpoch 2:  95%%|█████████▍| %d/9188 [30:57<01:45,  4.68it/s, loss=11.5]" % (8_600 + r),
}
NAMES = {
    "rank files": lambda c, r: "rank_%d.log" % r,
    "torchrun folders": lambda c, r: "attempt_0/%d/stderr.log" % r,
    "host files": lambda c, r: c.host(r) + ".log",
    "pods": lambda c, r: "llm-worker-%d.txt" % (r // c.per_host),
}

# Versions of PyTorch's watchdog: source lines of its two messages, format of the status message, label of each line, whether lines have a time.
VERSIONS = {
    "1.12": (737, None, None, "", ""),
    "2.0": (456, None, None, "", ""),
    "2.1": (474, None, None, "", ""),
    "2.3": (563, 1537, "[PG %(id)d Rank %(rank)d] Timeout at NCCL work: %(seq)d, last enqueued NCCL work: %(enqueued)d, last completed NCCL work: "
                       "%(completed)d.",
            "[rank%d]:", ""),
    "2.4": (607, 1664, "[PG %(id)d Rank %(rank)d] Exception (either an error or timeout) detected by watchdog at work: %(seq)d, last enqueued NCCL "
                       "work: "
            "%(enqueued)d, last completed NCCL work: %(completed)d.", "[rank%d]:", "time"),
    "2.5": (616, 1785, "[PG ID %(id)d PG GUID %(guid)s Rank %(rank)d] Exception (either an error or timeout) detected by watchdog at work: %(seq)d, "
                       "last "
            "enqueued NCCL work: %(enqueued)d, last completed NCCL work: %(completed)d.", "[rank%d]:", "time"),
    "2.7": (632, 2268, "[PG ID %(id)d PG GUID %(guid)s Rank %(rank)d]  failure detected by watchdog at work sequence id: %(seq)d PG status: last "
                       "enqueued "
            "work: %(enqueued)d, last completed work: %(completed)d", "[rank%d]:", "time"),
}
ASYNCHRONOUS = ("Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run "
                "on "
                "corrupted/incomplete data.")
FRAMES = """Exception raised from checkTimeout at ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:618 (most recent call first):
frame #0: c10::Error::Error(c10::SourceLocation, std::string) + 0x96 (0x7f64e3b3af86 in /opt/conda/lib/python3.10/site-packages/torch/lib/libc10.so)
frame #1: c10d::ProcessGroupNCCL::watchdogHandler() + 0x233 (0x7f64e4e3f353 in /opt/conda/lib/python3.10/site-packages/torch/lib/libtorch_cuda.so)
frame #2: clone + 0x43 (0x7f652b92c353 in /lib/x86_64-linux-gnu/libc.so.6)
"""


def head(c, version, rank, line, level="E"):
    _, _, _, label, timed = VERSIONS[version]
    return (label % rank if label else "") + "[%s%s ProcessGroupNCCL.cpp:%d] " % (level, c.glog() if timed else "", line)


def watchdog(c, rank, version, operation="ALLREDUCE", seq=None, numel=None, ahead=0, done=None, group=(0, "0(default_pg)", None), timeout=600_000):
    """Writes what a rank's watchdog prints about a collective that timed out. `group`: number, GUID, and the rank's number in the group."""
    caught_at, status_at, status, _, _ = VERSIONS[version]
    seq, numel, me = seq or c.sequence, numel or c.numel, rank if group[2] is None else group[2]
    sizes = (numel * (c.ranks if operation == "_REDUCE_SCATTER_BASE" else 1), numel * (c.ranks if operation == "_ALLGATHER_BASE" else 1))
    work = "WorkNCCL(SeqNum=%d, OpType=%s, %sTimeout(ms)=%d)" % (seq, operation, "" if version < "2.1" else "NumelIn=%d, NumelOut=%d, " % sizes,
                                                               timeout)
    caught = "[Rank %d] Watchdog caught collective operation timeout: %s ran for %d milliseconds before timing out." % (
        me, work, timeout + c.choose.randrange(1, 90))
    c.say(rank, head(c, version, rank, caught_at) + caught)
    if status:
        fields = {"id": group[0], "guid": group[1], "rank": me, "seq": seq, "enqueued": seq + ahead, "completed": seq - 1 if done is None else done}
        c.say(rank, head(c, version, rank, status_at) + status % fields)
    mine = "[Rank %d] " % me if version > "2.2" else ""
    c.say(rank, head(c, version, rank, caught_at + 14) + mine + ASYNCHRONOUS)
    c.say(rank, head(c, version, rank, caught_at + 20) + mine + "To avoid data inconsistency, we are taking the entire process down.")
    if version < "2.2":
        c.say(rank, "terminate called after throwing an instance of 'std::runtime_error'\n  what():  " + caught)
    else:
        c.say(rank, head(c, version, rank, (status_at or 900) + 110) + "[PG %d Rank %d] Process group watchdog thread terminated with exception: %s"
              % (group[0], me, caught) + "\n" + FRAMES)


def signalled(c, rank, by, enqueued, completed):
    """Writes what a rank prints when a watchdog asks all ranks for dumps (2.5 and newer)."""
    c.say(rank, head(c, "2.5", rank, 1_484) + "[PG ID 0 PG GUID 0(default_pg) Rank %d] Received a dump signal due to a collective timeout from %s "
                                              "and we "
          "will try our best to dump the debug info. Last enqueued NCCL work: %d, last completed NCCL work: %d.This is most likely caused by "
          "incorrect "
          "usages of collectives, e.g., wrong sizes used across ranks, the order of collectives is not same for all ranks or the scheduled "
          "collective, for "
          "some reason, didn't run. Additionally, this can be caused by GIL deadlock or other reasons such as network errors or bugs in the "
          "communications library (e.g. NCCL), etc. " % (rank, "this local rank" if by == rank else "rank %d" % by, enqueued, completed))
    c.say(rank, head(c, "2.5", rank, 1_288) + "[PG ID 0 PG GUID 0(default_pg) Rank %d] ProcessGroupNCCL preparing to dump debug info." % rank)


def same(c, version, operation, **more):
    """All ranks time out in the same collective, so nothing identifies the culprit."""
    ahead = c.choose.choice((0, 0, 2, 3))
    for rank in c.shuffled(c.all):
        watchdog(c, rank, version, operation, ahead=ahead, **more)
    c.nobody()


def silent(c, version, operation, **more):
    """All ranks except the culprit time out; the culprit prints nothing."""
    for rank in c.shuffled(c.others):
        watchdog(c, rank, version, operation, **more)
    c.fault()


def silent_first(c, version, operation, **more):
    """Rank 0 saves a checkpoint and prints nothing; the other ranks time out."""
    c.culprit = 0
    silent(c, version, operation, **more)


def one_node(c, version, operation, **more):
    """The log has only the ranks of one host, and all of them time out."""
    c.job(c.choose.choice((16, 32)), 8)
    node = c.choose.randrange(1, c.ranks // 8)
    for rank in c.shuffled(range(8 * node, 8 * node + 8)):
        watchdog(c, rank, version, operation, **more)
    c.nobody()


def one_rank(c, version, operation, **more):
    """The user posted only one rank's line."""
    watchdog(c, c.culprit, version, operation, **more)
    c.nobody()


def behind(c, version, operation, **more):
    """The culprit has not enqueued the collective, as its dump signal shows."""
    first = c.choose.choice(c.others)
    for rank in [first] + [rank for rank in c.shuffled(c.others) if rank != first]:
        watchdog(c, rank, version, operation, **more)
    for rank in c.shuffled(c.all):
        missing = rank == c.culprit
        signalled(c, rank, rank if not missing else first, c.sequence - missing, c.sequence - 1)
    c.fault()


def other_operation(c, version, operation, **more):
    """The culprit times out in another operation with the same number."""
    for rank in c.shuffled(c.all):
        watchdog(c, rank, version, "BROADCAST" if rank == c.culprit else operation, numel=1 if rank == c.culprit else None, **more)
    c.fault() if c.ranks > 2 else c.fault(accept=[[0], [1], [0, 1]])


def other_size(c, version, operation, **more):
    """The culprit's tensor has another size."""
    for rank in c.shuffled(c.all):
        watchdog(c, rank, version, operation, numel=c.numel + 128 if rank == c.culprit else c.numel, **more)
    c.fault()


# name: thread, family, version, operation, what the ranks print, container
WATCHDOG = {
    "sft-allreduce": ("hiyouga/LlamaFactory/issues/7396", "llamafactory", "2.4", "ALLREDUCE", same, "numbered"),
    "sft-reduce-scatter": ("hiyouga/LlamaFactory/issues/6269", "llamafactory", "2.4", "_REDUCE_SCATTER_BASE", same, "plain"),
    "restoration": ("XPixelGroup/BasicSR/issues/737", "ddp", "2.5", "ALLREDUCE", same, "quoted"),
    "captioning": ("OFA-Sys/OFA/issues/271", "ddp", "1.12", "ALLREDUCE", silent, "plain"),
    "tutorial-3d": ("huggingface/picotron_tutorial/issues/6", "picotron", "2.1", "ALLREDUCE", silent, "plain"),
    "serving-tp": ("vllm-project/vllm/issues/5458", "vllm", "2.3", "ALLREDUCE", same, "plain"),
    "serving-gather": ("vllm-project/vllm/issues/5484", "vllm", "2.3", "GATHER", one_rank, "ray"),
    "sglang-allgather": ("sgl-project/sglang/issues/1693", "sglang", "2.4", "_ALLGATHER_BASE", same, "plain"),
    "slurm-lightning": ("ShinoharaHare/LLM-Training/issues/7", "lightning", "2.3", "ALLREDUCE", one_node, "host files"),
    "zero3-checkpoint": ("huggingface/accelerate/issues/2912", "deepspeed", "2.3", "_ALLGATHER_BASE", silent_first, "plain"),
    "inpainting": ("advimman/lama/issues/324", "lightning", "2.3", "BROADCAST", silent_first, "bar"),
    "tune-checkpoint": ("meta-pytorch/torchtune/issues/2093", "torchtune", "2.5", "ALLREDUCE", silent_first, "plain"),
    "speech-two-nodes": ("modelscope/FunASR/issues/2006", "ddp", "2.3", "ALLREDUCE", one_node, "pods"),
    "weather": ("ecmwf/WeatherGenerator/issues/360", "fsdp", "2.7", "ALLREDUCE", silent, "srun"),
    "hybrid-model": ("allenai/OLMo-core/issues/829", "fsdp", "2.7", "_REDUCE_SCATTER_BASE", same, "torchrun folders"),
    "protein-ddp": ("huggingface/accelerate/issues/3380", "accelerate", "2.5", "ALLREDUCE", behind, "plain"),
    "fsdp2-loading": ("axolotl-ai-cloud/axolotl/issues/3476", "fsdp", "2.7", "_ALLGATHER_BASE", behind, "rank files"),
    "climate": ("ai2cm/ace/issues/348", "ddp", "2.1", "ALLREDUCE", silent, "indented"),
    "grpo-broadcast": ("huggingface/open-r1/issues/620", "trl", "2.7", "BROADCAST", silent_first, "cut"),
    "asr-multi-gpu": ("Lightning-AI/pytorch-lightning/issues/20832", "nemo", "2.5", "ALLREDUCE", other_size, "cut, filled"),
    "zero3-generate": ("deepspeedai/DeepSpeed/issues/5539", "deepspeed", "2.1", "_ALLGATHER_BASE", one_rank, "plain"),
    "simple-grpo": ("lsdefine/simple_GRPO/issues/20", "deepspeed", "2.5", "ALLREDUCE", other_operation, "plain"),
    "save-best": ("pytorch/pytorch/issues/77562", "fsdp", "1.12", "_ALLGATHER_BASE", other_operation, "srun"),
    "tensor-parallel-vllm": ("vllm-project/vllm/issues/12625", "vllm", "2.5", "ALLREDUCE", silent, "tee"),
    "video-diffusion": ("huggingface/diffusers/issues/12422", "ddp", "2.7", "ALLREDUCE", same, "kubectl"),
}


def _row(thread, family, version, operation, shape, container):
    def build(c):
        if shape is not one_node and c.choose.random() < 0.3:
            c.job(c.choose.choice((3, 6, 8)), 8)
        shape(c, version, operation, timeout=c.choose.choice((600_000, 1_800_000, 240_000)))
        c.finish(container)
    return URL + thread, family, build


REPORTS.update({name: _row(*row) for name, row in WATCHDOG.items()})


@report("mila-iqia/milabench/pull/269", "ddp")
def benchmark_reduce(c):
    c.job(16, 8)
    silent(c, "2.4", "REDUCE", seq=2070, numel=1)
    text = ["dinov2-giant-nodes.%s [stderr] %s" % (c.host(rank), line.replace("timeout: ", "timeout: \n")) for rank, line in c.lines]
    c.lines = [(None, line) for one in text for line in one.split("\n")]


@report("vllm-project/vllm/issues/8978", "vllm")
def first_collective(c):
    for rank in c.all:
        nccl_init(c, rank)
    for rank in c.shuffled(c.all):
        watchdog(c, rank, "2.4", seq=1, numel=128, done=-1)
    c.nobody()


@report("verl-project/verl/issues/1309", "verl")
def critic_init(c):
    c.job(16, 8)
    rank = 2 * c.choose.randrange(8) + 1
    watchdog(c, rank, "2.7", "BROADCAST", seq=3, numel=1, group=(4, "20(mesh_tp)", 1), timeout=1_800_000)
    c.nobody(accept=[[rank - 1], [rank - 1, rank]])
    c.finish("ray")


def stuck(c, seconds, size=""):
    for rank in c.shuffled(c.all):
        c.say(rank, head(c, "2.5", rank, 1746) + "[PG ID 0 PG GUID 0(default_pg) Rank %d] ProcessGroupNCCL's watchdog got stuck for %d seconds "
                                                 "without "
              "making progress in monitoring enqueued collectives. This typically indicates a NCCL/CUDA API (e.g., CudaEventDestroy) hang blocking "
              "the "
              "watchdog, and could be triggered by another thread holding the GIL inside a CUDA api (for example, CudaEventDestroy), or other "
              "deadlock-prone behaviors.If you suspect the watchdog is not actually stuck and a longer timeout would help, you can either increase "
              "the "
              "timeout (TORCH_NCCL_HEARTBEAT_TIMEOUT_SEC) to a larger value or disable the heartbeat monitor (TORCH_NCCL_ENABLE_MONITORING=0). %s" %
              (rank, seconds, size))
    c.nobody()


@report("hiyouga/LlamaFactory/issues/8549", "llamafactory")
def streaming_stuck(c):
    stuck(c, 480)


@report("om-ai-lab/VLM-R1/issues/257", "trl")
def stuck_in_a_terminal(c):
    stuck(c, 480)
    c.finish("cut, filled")


TRACEBACK = """Traceback (most recent call last):
  File "/workspace/train.py", line %d, in <module>
    main()
  File "/workspace/train.py", line %d, in main
    %s
  File "/opt/conda/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1553, in _wrapped_call_impl
    return self._call_impl(*args, **kwargs)
%s"""


def raises(c, rank, error, labelled=True, line="loss = model(batch)"):
    text = TRACEBACK % (c.sequence % 90 + 800, c.sequence % 90 + 300, line, error)
    c.say(rank, "".join(("[rank%d]: " % rank if labelled else "") + one + "\n" for one in text.split("\n")))


OOM = ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 4.35 GiB. GPU %(local)d has a total capacity of 63.42 GiB of which 1.70 GiB "
       "is free. "
       "Including non-PyTorch memory, this process has 60.30 GiB memory in use.")
GLOO = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/"
UNIQUE = ("torch.distributed.DistBackendError: [%(rank)d] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value "
          "store by "
          "key '0', but store->get('0') got error: ")
DDP = "RuntimeError: DDP expects same model across all ranks, but Rank %(rank)d has 128 params, while rank 0 has inconsistent 1506656875 params."
OTHERS = "the others' watchdogs"
# name: thread, family, the culprit's error (None: it prints nothing), the other ranks' error, whether lines have PyTorch's label, container, and "first" if
# rank 0 is the culprit
RAISED = {
    "oom-of-one": ("Lightning-AI/litgpt/issues/303", "fsdp", OOM, OTHERS, False, "plain", ""),
    "oom-multi-node": ("modelscope/ms-swift/issues/6301", "deepspeed", OOM, None, True, "kubectl", ""),
    "ecc-at-start": ("huggingface/trl/issues/4149", "trl", "RuntimeError: CUDA error: uncorrectable ECC error encountered\nCUDA kernel errors might "
                                                           "be "
                     "asynchronously reported at some other API call, so the stacktrace below might be incorrect.", OTHERS, True, "plain", ""),
    "gloo-timeout": ("rwth-i6/returnn/issues/1484", "returnn", "RuntimeError: CUDA error: an illegal memory access was encountered",
                     GLOO + "unbound_buffer.cc:81] Timed out waiting 1800000ms for send operation to complete", True, "tee", ""),
    "gloo-closed": ("hkust-nlp/simpleRL-reason/issues/17", "openrlhf", None, GLOO + "pair.cc:534] Connection closed by peer [10.21.3.7]:38032", True,
                    "plain", ""),
    "id-never-set": ("hiyouga/LlamaFactory/issues/3698", "llamafactory", None, UNIQUE + "Socket Timeout", True, "plain", "first"),
    "exception-hides": ("snowflakedb/ArcticTraining/pull/233", "deepspeed", "KeyError: 'messages'", UNIQUE + "Connection reset by peer", True,
                        "plain", "first"),
    "params-of-first": ("huggingface/transformers/issues/30702", "transformers", None, DDP, False, "plain", "first"),
    "worker-cannot-resolve": ("kubeflow/pytorch-operator/issues/125", "kubernetes", "ValueError: host not found: Name or service not known", None,
                              False, "rank files", ""),
}


def raised(c, own, theirs, labelled, container, first):
    c.job(c.choose.choice((4, 8, 16)))
    c.culprit = 0 if first else c.culprit
    for rank in c.all:
        if container == "rank files":
            c.say(rank, "%s,310 INFO     init_distribution(rank=%d)" % (c.stamp(), rank))
    for rank in c.shuffled(c.all):
        error = own if rank == c.culprit else theirs
        if error == OTHERS:
            watchdog(c, rank, "2.5" if labelled else "2.0", "_ALLGATHER_BASE", timeout=1_800_000)
        elif error:
            raises(c, rank, error % {"rank": rank, "local": c.local(rank)}, labelled)
    c.fault()
    c.finish(container)


ELASTIC = "torch.distributed.elastic.multiprocessing.api"


def elastic(c, failed, code, others=()):
    """Writes torchrun's lines: it stops the other processes, then prints which process failed first."""
    for rank in c.all:
        if c.host(rank) == c.host(failed) and rank != failed and rank not in others:
            c.say(None, "W%s 2521679 site-packages/torch/distributed/elastic/multiprocessing/api.py:908] Sending process %d closing signal SIGTERM" %
                  (c.glog()[:-3], c.pid(rank)))
    c.say(None, "E%s 2521679 site-packages/torch/distributed/elastic/multiprocessing/api.py:882] failed (exitcode: %d) local_rank: %d (pid: %d) of "
                "binary: "
          "/opt/conda/bin/python3.11" % (c.glog()[:-3], code, c.local(failed), c.pid(failed)))
    c.say(None, 'Traceback (most recent call last):\n  File "/opt/conda/bin/torchrun", line 8, in <module>\n    sys.exit(main())')
    signals = {-9: "SIGKILL", -6: "SIGABRT", -11: "SIGSEGV"}

    def row(index, rank):
        why = "Signal %d (%s) received by PID %d" % (-code, signals[code], c.pid(rank)) if code < 0 else \
            "To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html"
        return ("[%d]:\n  time      : %s\n  host      : %s\n  rank      : %d (local_rank: %d)\n  exitcode  : %d (pid: %d)\n  error_file: <N/A>\n"
                "  traceback : %s\n" % (index, c.stamp("_"), c.host(rank), rank, c.local(rank), code, c.pid(rank), why))
    line, rule = "=" * 60, "-" * 60
    listed = "".join(row(i + 1, rank) for i, rank in enumerate(others)) or "  <NO_OTHER_FAILURES>\n"
    c.say(None, ELASTIC.replace("api", "errors") + ".ChildFailedError: \n%s\ntrain.py FAILED\n%s\nFailures:\n%s%s\nRoot Cause (first observed "
                                                   "failure):\n"
          "%s%s" % (line, rule, listed, rule, row(0, failed), line))


@report("pytorch/pytorch/issues/113128", "ddp")
def ecc_in_watchdog(c):
    c.job(16, 4)
    rank = c.culprit
    c.say(rank, head(c, "2.4", rank, 1515) + "[PG 0 (default_pg) Rank %d] Process group watchdog thread terminated with exception: CUDA error: "
          "uncorrectable ECC error encountered\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n\n" % rank +
          FRAMES.replace("checkTimeout", "c10_cuda_check_implementation"))
    elastic(c, rank, -6)
    c.fault()
    c.finish("tee")


@report("xiaomi-research/time-r1/issues/9", "trl")
def killed_by_memory(c):
    elastic(c, c.culprit, c.choose.choice((-9, -11)))
    c.fault()


@report("pytorch/pytorch/issues/123070", "fsdp")
def all_out_of_memory(c):
    for rank in c.shuffled(c.all):
        raises(c, rank, OOM % {"local": c.local(rank)}, labelled=False)
    elastic(c, c.culprit, 1, others=c.others)
    c.nobody(accept=[[c.culprit]])


@report("open-mmlab/mmsegmentation/issues/3106", "ddp")
def all_aborted(c):
    same(c, "2.0", "ALLREDUCE")
    elastic(c, 0, -6, others=c.all[1:])


RULE = "-" * 74 + "\n"
# name: thread, family, the launcher's lines, whether they show the culprit
ENDS = {
    "old-launcher": ("fidelity/stoke/issues/31", "ddp", "ERROR:" + ELASTIC + ":failed (exitcode: -9) local_rank: %(local)d (pid: %(pid)d) of binary: "
                     "/opt/conda/bin/python", None),
    "spawn-killed": ("resistzzz/Prompt4NR/issues/3", "ddp", "    raise ProcessExitedException(\ntorch.multiprocessing.spawn.ProcessExitedException: "
                                                            "process "
                     "%(rank)d terminated with signal SIGKILL", True),
    "mpirun-killed": ("PaddlePaddle/Paddle/issues/13288", "mpi", RULE + "mpirun noticed that process rank %(rank)d with PID %(pid)d on node "
                                                                        "%(host)s exited "
                      "on signal 9 (Killed).\n" + RULE, True),
    "prterun-segfault": ("NVIDIA/nccl/issues/1419", "nccl-tests", "[%(host)s:%(pid)d:0:%(pid)d] Caught signal 11 (Segmentation fault: address not "
                                                                  "mapped to "
                         "object at address 0x10)\n" + RULE + "prterun noticed that process rank %(rank)d with PID %(pid)d on node %(host)s exited "
                                                              "on\n"
                         "signal 11 (Segmentation fault).\n" + RULE, True),
    "mpirun-status": ("NVIDIA/nccl-tests/issues/294", "nccl-tests", RULE + "mpirun detected that one or more processes exited with non-zero status, "
                                                                           "thus "
                      "causing\nthe job to be terminated. The first process to do so was:\n\n  Process name: [[12167,1],%(rank)d]\n  Exit code:    "
                      "3\n" + RULE,
                      True),
    "illegal-access": ("deepspeedai/DeepSpeed/issues/6896", "deepspeed", "[rank%(rank)d]:[E ProcessGroupNCCL.cpp:1182] [Rank %(rank)d] NCCL "
                                                                         "watchdog thread "
                       "terminated with exception: CUDA error: an illegal memory access was encountered\nprterun noticed that process rank %(rank)d "
                       "with PID "
                       "0 on node %(host)s exited on signal 6 (Aborted).", True),
    "deepspeed-launcher": ("OpenRLHF/OpenRLHF/issues/841", "deepspeed", "[%(time)s,100] [INFO] [launch.py:319:sigkill_handler] Killing subprocess "
                                                                        "%(pid)d\n"
                           "[%(time)s,412] [ERROR] [launch.py:325:sigkill_handler] ['/usr/bin/python3', '-u', 'train_ppo.py', "
                           "'--local_rank=%(local)d', "
                           "'--zero_stage', '2'] exits with return code = -9", True),
    "slurm-memory": ("nextflow-io/nextflow/issues/5932", "slurm", "slurmstepd: error: Detected 1 oom_kill event in StepId=113.0. Some of the step "
                                                                  "tasks have "
                     "been OOM Killed.\nsrun: error: %(host)s: task %(rank)d: Out Of Memory\nsrun: Terminating StepId=113.0", True),
    "vllm-worker-died": ("vllm-project/vllm/issues/12625", "vllm", "(EngineCore_DP0 pid=77) ERROR 10-01 13:54:43 [multiproc_executor.py:154] Worker "
                                                                   "proc "
                         "VllmWorker-%(rank)d died unexpectedly, shutting down executor.", True),
    "amd-gpu-hang": ("ROCm/legacy-rocm-build/issues/4021", "rccl", "HW Exception by GPU node-9 (Agent handle: 0x631351bb5a20) reason :GPU "
                                                                   "Hang\nAborted (core "
                     "dumped)", False),
    "nccl-mismatch": ("NVIDIA/nccl/issues/296", "ddp", "%(host)s:%(pid)d:%(pid)d [3] init.cc:1247 NCCL WARN Mismatched collective detected, please "
                                                       "check your "
                      "collective calls at and around rank %(rank)d. You can use NCCL_DEBUG=INFO and NCCL_DEBUG_SUBSYS=COLL to see the collective "
                      "logs", None),
}


def ended(c, text, shown):
    c.job(8, 8)
    c.say(None, "step %d: loss 2.1" % c.sequence)
    c.say(None, text % {"rank": c.culprit, "local": c.culprit, "pid": c.pid(c.culprit), "host": c.host(c.culprit), "time": c.stamp()})
    c.fault() if shown else c.nobody(accept=[[c.culprit]] if shown is None else [])


@report("tonyyxliu/CUHKSZ-CSC4005/issues/51", "slurm")
def slurm_all_killed(c):
    for rank in c.shuffled(c.all):
        c.say(None, "srun: error: %s: task %d: Killed" % (c.host(rank), rank))
    c.nobody()


@report("sgl-project/sglang/issues/3204", "sglang")
def ecc_in_scheduler(c):
    for rank in c.shuffled(c.all):
        c.say(rank, "[%s TP%d] Using default MoE config. Performance might be sub-optimal!" % (c.stamp(), rank))
    c.say(None, "[%s TP%d] Scheduler hit an exception: " % (c.stamp(), c.culprit) + TRACEBACK % (
        1787, 433, "self.run_batch(batch)", "RuntimeError: CUDA error: uncorrectable ECC error encountered"))
    c.fault()


def fingerprint(seq, operation, shape, dtype="BFloat16"):
    return ("CollectiveFingerPrint(%sOpType=%s, TensorShape=[%s], TensorDtypes=%s, TensorDeviceTypes=TensorOptions(dtype=float (default), "
            "device=cuda, "
            "layout=Strided (default), requires_grad=false (default), pinned_memory=false (default), memory_format=(nullopt)))" %
            ("" if seq is None else "SequenceNumber=%d, " % seq, operation, shape, dtype))


# name: thread, family, ranks, the others' call, the culprit's, how they differ (None: this version prints only the rank's own call), container
DIFFER = {
    "shard-of-other-length": ("aurekaresearch/OpenDDE/issues/23", "ddp", 4, fingerprint(0, "_ALLGATHER_BASE", "359, 1, 1435, 16"),
                              fingerprint(0, "_ALLGATHER_BASE", "359, 1, 1436, 16"), "Tensor Tensor shapes: 359 1 1435 16vs 359 1 1436 16 ", "plain"),
    "text-only-batch": ("modelscope/ms-swift/pull/9443", "deepspeed", 2, fingerprint(3104, "ALLREDUCE", "195812480"),
                        fingerprint(3104, "ALLREDUCE", "51123456"), "Tensor Tensor shapes: 195812480vs 51123456", "plain"),
    "metrics-differ": ("Lightning-AI/pytorch-lightning/issues/19106", "lightning", 8, fingerprint(21, "BROADCAST", "1", "Long"),
                       fingerprint(21, "ALLREDUCE", "1", "Float"), "Op type: BROADCASTvs ALLREDUCE", "srun"),
    "old-mismatch": ("pytorch/pytorch/issues/78022", "ddp", 8, fingerprint(None, "BROADCAST", "1024", "Float"),
                     fingerprint(None, "BROADCAST", "34112", "Float"), None, "mpirun"),
}


def differ(c, ranks, theirs, own, how, container):
    """Writes the error of TORCH_DISTRIBUTED_DEBUG=DETAIL: each rank compares itself with the first rank that differs."""
    c.job(ranks, 8)
    for rank in c.shuffled(c.all):
        mine, yours = (own, theirs) if rank == c.culprit else (theirs, own)
        text = "RuntimeError: Detected mismatch between collectives on ranks. Rank %d is running %s: %s" % (
            rank, "collective" if how else "inconsistent collective", mine)
        if how:
            text += ", but Rank %d is running collective: %s.Collectives differ in the following aspects: \t %s" % (
                c.others[0] if rank == c.culprit else c.culprit, yours, how)
        raises(c, rank, text, how is not None)
    c.fault(accept=[[0], [1], [0, 1]] if ranks == 2 else [])
    c.finish(container)


def nccl_call(c, rank, name, count, number, kind=7):
    c.say(rank, "%s:%d:%d [%d] NCCL INFO %s: opCount %x sendbuff 0x7f5dd32b2100 recvbuff 0x7f5dd32b2100 count %d datatype %d op 0 root 0 comm "
                "0x55bef02%05x "
          "[nranks=%d] stream 0x55bef0208bd0" % (c.host(rank), c.pid(rank), c.pid(rank), c.local(rank), name, number, count, kind, rank, c.ranks))


def nccl_init(c, rank, state="Init COMPLETE"):
    local = c.local(rank)
    c.say(rank, "%s:%d:%d [%d] NCCL INFO ncclCommInitRank comm 0x55bef02%05x rank %d nranks %d cudaDev %d nvmlDev %d busId %x000 commId "
          "0xb886029f29f1a815 - %s" %
          (c.host(rank), c.pid(rank), c.pid(rank) + 200, local, rank, rank, c.ranks, local, local, 16 * local + 25, state))


@report("ROCm/rccl/issues/429", "rccl")
def rccl_gather_instead(c):
    for rank in c.all:
        nccl_init(c, rank)
    for number in range(0x28A, 0x28E):
        for rank in c.shuffled(c.all):
            wrong = rank == c.culprit and number >= 0x28C
            nccl_call(c, rank, "AllGather" if wrong else "AllReduce", 59_205_120 if wrong else 9_984_512, number, 0 if wrong else 7)
    c.fault()


@report("NVIDIA/nccl/issues/531", "ddp")
def half_and_half(c):
    c.job(16, 8)
    for rank in c.all:
        nccl_init(c, rank)
    for rank in c.shuffled(c.all):
        nccl_call(c, rank, "AllGather" if rank < 8 else "ReduceScatter", 512, 0xF7, 0)
    c.nobody(accept=[range(8), range(8, 16)])
    c.finish("host files")


@report("Lightning-AI/pytorch-lightning/issues/20434", "slurm")
def one_does_not_join(c):
    for rank in c.shuffled(c.others):
        c.say(rank, "%s:%d:%d [%d] NCCL INFO Bootstrap : Using ibs8:%s<0>" % (c.host(rank), c.pid(rank), c.pid(rank), c.local(rank), c.address(rank)))
        nccl_init(c, rank, "Init START")
    c.fault()
    c.finish("srun")


@report("NVIDIA/nccl/issues/2385", "nccl-tests")
def all_in_bootstrap(c):
    c.job(15, 8)
    for rank in c.shuffled(c.all):
        nccl_init(c, rank, "Init START")
    c.nobody()
    c.finish("host files")


@report("NVIDIA/nccl/issues/1814", "nccl-tests")
def ib_retries(c):
    c.job(16, 8)
    pair = sorted((c.culprit, (c.culprit + 8) % 16))
    for rank in pair:
        for status, length in ((12, 65_536), (5, 0)):
            at = (c.host(rank), c.pid(rank), c.pid(rank) + 373, c.local(rank), c.address((rank + 8) % 16))
            c.say(rank, "%s:%d:%d [%d] ib_plugin.c:1615 NCCL WARN NET/IB : Got completion from peer %s<44206> with status=%d opcode=129 len=%d "
                  "vendor err 129 (Recv) localGid ::ffff:29.87.88.182 remoteGids::ffff:29.87.4.221" % (*at, status, length))
    c.nobody(accept=[pair])
    c.finish("host files")


@report("hiyouga/LlamaFactory/issues/6849", "llamafactory")
def broken_pipe(c):
    c.job(8, 4)
    for rank in range(4, 8):
        c.say(rank, head(c, "2.7", rank, 1895) + "[PG ID 0 PG GUID 0(default_pg) Rank %d] Process group watchdog thread terminated with exception: "
                                                 "NCCL error: "
              "remote process exited or there was a network error, NCCL version 2.21.5\nncclRemoteError: A call failed possibly due to a network "
              "error or a "
              "remote process exiting prematurely.\nLast error:\nsocketProgressOpt: Call to recv from %s<49901> failed : Broken pipe" %
              (rank, c.address(0)))
    c.nobody(accept=[range(4)])
    c.finish("pods")


@report("NVIDIA/nccl/issues/1235", "llamafactory")
def memory_in_setup(c):
    c.job(8, 4)
    for rank in c.shuffled(c.all):
        at = "%s:%d:%d [%d] " % (c.host(rank), c.pid(rank), c.pid(rank) + 300, c.local(rank))
        if rank == c.culprit:
            c.say(rank, at + "include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'\n" + at +
                  "proxy.cc:1519 NCCL WARN [Proxy Service %d] Failed to execute operation Setup from rank %d, retcode 1" % (rank, rank))
        else:
            c.say(rank, at + "misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer %s-ib<51159>" % c.host(c.culprit))
    c.fault()
    c.finish("rank files")


def ras(c, status, details):
    """Returns what ncclras prints."""
    nodes = c.ranks // c.per_host
    return ("NCCL version 2.28.3 compiled with CUDA 12.9\nCUDA runtime version 12090, driver version 13000\n\nJob summary\n===========\n\n  Nodes  "
            "Processes     "
            "    GPUs  Processes     GPUs\n(total)   per node  per process    (total)  (total)\n%7d%11d%13d%11d%9d\n\nCommunicators... "
            "(0.00s)\n=============\n\n"
            "Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n    #  in group  per comm  per node  per comm  in group\n"
            "    0         1%10d%10d%10d%10d   RUNNING  %s\n%s" %
            (nodes, c.per_host, 1, c.ranks, c.ranks, nodes, c.per_host, c.ranks, c.ranks, status, details))


NO_ERRORS = "\nErrors\n======\n\nWarnings\n========\n\n"


def ras_rank(c, rank, launched=""):
    return "  Rank %d%s -- GPU %d managed by process %d on node %s\n" % (rank, launched, c.local(rank), c.pid(rank), c.address(rank))


@report("NVIDIA/nccl/issues/1911", "ras")
def ras_ahead(c):
    c.job(32, 8)
    ahead = sorted(c.choose.sample(c.all, 2))
    c.file("ras.txt", ras(c, "MISMATCH", NO_ERRORS + "#0-0 (fa93daea854b060b) MISMATCH\n  Communicator ranks have different AllGather operation "
                                                     "counts\n"
                          "  30 ranks have launched up to operation %d\n  2 ranks have launched up to operation %d\n" % (c.sequence, c.sequence + 1) +
                          "".join(ras_rank(c, rank) for rank in ahead) + "\n"))
    c.nobody(accept=[[rank for rank in c.all if rank not in ahead]])


@report("MiaAI-Lab/DeepSeek-v4-Flash-DSpark-2x-DGX-Spark/pull/132", "ras")
def ras_behind(c):
    c.job(8)
    text = (NO_ERRORS + "#0-0 (78db921d1c117b4a) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n  7 ranks have launched "
                        "up to "
            "operation %d\n" % c.sequence + ras_rank(c, c.culprit, " has launched up to operation %d" % (c.sequence - 4)) + "\n")
    for name in ("ras-1.txt", "ras-2.txt"):
        c.file(name, ras(c, "MISMATCH", text))
    c.fault()


@report("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html", "ras")
def ras_dead(c):
    c.job(32, 8)
    rank = c.culprit
    text = ("\nErrors\n======\n\nDEAD\n  1 job process is considered dead (unreachable via the RAS network)\n  Process %d on node %s managing GPU "
            "%d\n\n"
            "#0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 1 rank\n" % (c.pid(rank), c.address(rank), c.local(rank)))
    c.file("ncclras.out", ras(c, "INCOMPLETE", text + ras_rank(c, rank) + "\nWarnings\n========\n\n"))
    c.fault()


# name: thread, family, innermost frames of the culprit (None: all are equal), innermost frames of the others, outer frames of all, format
STACKS = {
    "loader-stuck": ("pytorch/pytorch/issues/87995", "fairseq", ("wait (threading.py:302)", "__next__ (fairseq/data/iterators.py:648)"),
                     ("all_reduce (torch/distributed/distributed_c10d.py:2219)", "all_reduce_dict (fairseq/distributed/utils.py:660)"),
                     ("train (fairseq_cli/train.py:274)", "<module> (train.py:14)"), "files"),
    "loop-stuck": ("deepspeedai/DeepSpeed/issues/6524", "deepspeed", ("forward (transformers/models/mixtral/modeling_mixtral.py:812)",),
                   ("all_gather_coalesced (deepspeed/runtime/zero/partition_parameters.py:1195)", "backward (deepspeed/runtime/engine.py:1976)"),
                   ("main (src/fine_tune.py:214)", "<module> (src/fine_tune.py:330)"), "== rank %(rank)d ==\n"),
    "all-in-step": ("marin-community/marin/issues/7344", "jax", None, ("train_step (experiments/train.py:585)",),
                    ("<module> (experiments/run.py:40)",),
                    "== pid %(pid)d ==\n"),
    "faulthandler": ("pytorch/pytorch/pull/54531", "ddp", ("read_shard (/workspace/data.py:88)",),
                     ("all_reduce (/opt/conda/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py:2501)",
                      "step (/workspace/train.py:140)"),
                     ("main (/workspace/train.py:300)", "<module> (/workspace/train.py:330)"), "faulthandler"),
}


def stacks(c, own, theirs, common, style):
    text = ""
    for rank in c.all:
        frames = (own if own and rank == c.culprit else theirs) + common
        if style == "faulthandler":
            lines = ['  File "%s", line %s in %s' % (*frame.split(" (")[1][:-1].rsplit(":", 1), frame.split(" (")[0]) for frame in frames]
            c.say(rank, "Timeout (0:10:00)!\nThread 0x00007f04d36bb740 (most recent call first):\n" + "\n".join(lines))
            continue
        spy = ("Process %d: /usr/bin/python3.10 -u train.py --config base.yaml\nPython v3.10.12 (/usr/bin/python3.10)\n\nThread %d (idle): "
               "\"MainThread\"\n" %
               (c.pid(rank), c.pid(rank)) + "".join("    %s\n" % frame for frame in frames) + "\n")
        if style == "files":
            c.file("rank%d.txt" % rank, spy)
        else:
            text += style % {"rank": rank, "pid": c.pid(rank)} + spy
    if text:
        c.file("stacks.txt", text)
    c.fault() if own else c.nobody()
    c.finish("torchrun folders")


@report("pytorch/pytorch/pull/53773", "ddp")
def monitored_barrier(c):
    c.culprit = c.culprit or 1
    raises(c, 0, "RuntimeError: [Rank 0]: Rank %d failed to pass monitoredBarrier in 30000 ms\n Original exception: "
                 "\n[../third_party/gloo/gloo/transport/tcp/"
           "pair.cc:598] Connection closed by peer [%s]:8594" % (c.culprit, c.address(c.culprit)))
    c.fault()


@report("pytorch/pytorch/pull/55010", "ddp")
def monitored_barrier_all(c):
    c.job(8)
    missing = sorted(c.choose.sample(range(1, 8), 2))
    raises(c, 0, "RuntimeError: [Rank 0]: Ranks %s failed to pass monitoredBarrier in 30000 ms" % ", ".join(map(str, missing)), False)
    c.fault(*missing)


BARRIER = ("Waiting in store based barrier to initialize process group for rank: %d, key: store_based_barrier_key:1 (world_size=%d, worker_count=%d, "
           "timeout=0:30:00)")


@report("Lightning-AI/pytorch-lightning/issues/4420", "lightning")
def store_barrier(c):
    for _ in range(2):
        for rank in c.shuffled(c.others):
            c.say(rank, "INFO:torch.distributed.distributed_c10d:" + BARRIER % (rank, c.ranks, c.ranks - 1))
    c.fault()


@report("huggingface/accelerate/issues/1401", "accelerate")
def alone_in_the_barrier(c):
    for _ in range(4):
        c.say(0, c.stamp() + " - INFO - torch.distributed.distributed_c10d - " + BARRIER % (0, c.ranks, 1))
    c.nobody(accept=[range(1, c.ranks)])


@report("pytorch/pytorch/pull/68310", "ddp")
def desync_report(c):
    seq, n = c.sequence, ", ".join(map(str, c.others))
    for rank in c.shuffled(c.others)[:2]:
        watchdog(c, rank, "2.1")
        c.say(rank, "\n\t - [%d] Timeout at collective: ALLREDUCE, #%d\n\t - To our best knowledge, the lagging/dead/mismatched ranks that caused "
                    "the desync are:"
              "\n\t     [%d] finished collective #%d, but didn't join collective #%d (count from 1)\n\t - Snapshot of ranks' latest states:\n\t   "
              "#%d finished "
              "ranks:\n\t     [%d] finished ALLREDUCE\n\t   #%d started ranks:\n\t     [%s] started ALLREDUCE" %
              (rank, seq, c.culprit, seq - 1, seq, seq - 1, c.culprit, seq, n))
    c.fault()


def dump(c, rank, count, done, last=262_144):
    """Returns a Flight Recorder dump with `count` calls; `done` of them are completed. `last` is the size of the last call."""
    start, entries = int(c.second) * 10**9, []
    for i in range(count):
        size = last if i + 1 == count else 262_144 if i % 5 else 1_024
        moment = start + i * 50_000_000 + rank * 100_000
        entries.append({"record_id": i, "pg_id": 0, "process_group": ("0", "default_pg"), "collective_seq_id": i + 1, "p2p_seq_id": 0, "op_id": i + 1,
                        "profiling_name": "nccl:all_reduce", "time_created_ns": moment, "input_sizes": [[size]], "input_dtypes": ["Float"],
                        "output_sizes": [[size]], "output_dtypes": ["Float"], "state": "completed" if i < done else "scheduled", "retired": i < done,
                        "time_discovered_started_ns": None, "time_discovered_completed_ns": moment + 30_000_000 if i < done else None,
                        "timeout_ms": 600_000, "is_p2p": False, "frames": [{"name": "main", "filename": "/workspace/train.py", "line": 300}]})
    return pickle.dumps({"version": "2.5", "entries": entries, "pg_config": {"0": {"name": "0", "desc": "default_pg", "ranks": str(c.all)}},
                         "pg_status": {"0": {"last_enqueued_collective": count, "last_started_collective": -1, "last_completed_collective": done}},
                         "nccl_version": "2.21.5"}, 2)


@report("pytorch/pytorch/issues/140563", "flight recorder")
def sizes_vary(c):
    for rank in c.all:
        c.file("nccl_trace_rank_container-%s_%d" % (c.host(rank), rank), dump(c, rank, 40, 39, 1_025 if rank == c.culprit else 262_144))
    c.fault()


@report("pytorch/pytorch/issues/196968", "flight recorder")
def one_dump_missing(c):
    count = c.choose.randrange(12, 60)
    for rank in c.others:
        c.file("comm_lib_trace_rank_%d" % rank, dump(c, rank, count, count - 1))
    c.fault()


@report("pytorch/tutorials/pull/3814", "flight recorder")
def asleep(c):
    count = c.choose.randrange(12, 60)
    for rank in c.all:
        c.file("trace_%d" % rank, dump(c, rank, count - (rank == c.culprit), count - 1))
    c.fault()


@report("NVIDIA/NVSentinel/issues/155", "hardware")
def off_the_bus(c):
    c.job(8, 8)
    for rank in c.all:
        nccl_init(c, rank)
    silent(c, "2.5", "ALLREDUCE")
    bus = "%02x" % (16 * c.culprit + 25)
    c.file("dmesg.txt", "[91843.308151] NVRM: Xid (PCI:0000:%s:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
           "[91843.308153] NVRM: GPU 0000:%s:00.0: GPU has fallen off the bus.\n" % (bus, bus))


STALLED = ("[%s.861697: W horovod/common/stall_inspector.cc:105] One or more tensors were submitted to be reduced, gathered or broadcasted by "
           "subset of ranks and "
           "are waiting for remainder of ranks for more than 60 seconds. This may indicate that different ranks are trying to submit different "
           "tensors or that "
           "only subset of ranks is submitting tensors, which will cause deadlock. \n%s")


@report("horovod/horovod/issues/1012", "horovod")
def stalled_operations(c):
    c.say(0, STALLED % (c.stamp(), "Stalled ops:" + "\n".join("HorovodBroadcast_%s_0 [missing ranks: %d]" % (name, c.culprit or 1)
                                                             for name in ("dense_1_bias", "dense_1_kernel"))))
    c.fault(c.culprit or 1)
    c.finish("mpirun")


@report("Lightning-AI/pytorch-lightning/pull/5155", "horovod")
def stalled_missing(c):
    c.say(0, STALLED % (c.stamp(), "Missing ranks:\n%d: [allreduce.c_d1.bias, allreduce.c_d1.weight, allreduce.c_d1_bn.bias ...]" % (c.culprit or 1)))
    c.fault(c.culprit or 1)
    c.finish("horovodrun")


@report("jax-ml/jax/issues/22740", "jax")
def xla_rendezvous(c):
    c.job(16, 8)
    for rank in c.shuffled(range(8)):
        c.say(rank, "%s.920189: E external/xla/xla/service/rendezvous.cc:38] This thread has been waiting for `initialize clique for rank %d; "
                    "clique=devices="
              "[%s]; stream=0; run_id=724296073` for 10 seconds and may be stuck. Expected 8 threads to join the rendezvous, but not all of them "
              "arrived "
              "on time." % (c.stamp(), rank, ",".join(map(str, c.all))))
    c.nobody()


@report("hpcaitech/ColossalAI/issues/6202", "healthy")
def not_destroyed(c):
    for step in range(1, 6):
        c.say(None, "step %d/500 loss=%.4f lr=2.0e-05 grad_norm=%.3f" % (step * 100, 2.5 - step / 5, c.choose.random()))
    c.say(0, head(c, "2.5", 0, 1168, "W") + "Warning: WARNING: process group has NOT been destroyed before we destruct ProcessGroupNCCL. On normal "
                                            "program exit, "
          "the application should call destroy_process_group to ensure that any pending NCCL operations have finished in this process. (function "
          "operator())")
    c.healthy()


@report("https://docs.nvidia.com/deeplearning/nccl/user-guide/docs/troubleshooting/ras.html#healthy", "healthy")
def ras_healthy(c):
    c.job(32, 8)
    c.file("ras.txt", ras(c, "OK", NO_ERRORS))
    c.healthy()


for build, rows in ((raised, RAISED), (ended, ENDS), (differ, DIFFER), (stacks, STACKS)):
    for key, (where, kind, *more) in rows.items():
        REPORTS[key] = (URL + where, kind, lambda c, build=build, more=more: build(c, *more))


def make(name, seed):
    """Returns (truth, files) of a report. The same seed gives the same files."""
    provenance, family, build = REPORTS[name]
    case = Case("%s/%d" % (name, seed))
    build(case)
    case.finish()
    return {"fault": "as reported", "report": name, "culprits": case.culprits, "accept": case.accept, "identifiable": case.identifiable,
            "form": "public report", "tells": [], "family": "report, " + family, "lost": None, "ranks": case.ranks, "seed": seed,
            "provenance": provenance, "licence": "Apache-2.0"}, case.files


def write(files, folder):
    for name, content in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content)
