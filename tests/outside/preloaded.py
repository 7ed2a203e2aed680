"""Runs programs that use or could use NCCL with and without the recorder. They must behave the same, and leave no ring if they never call NCCL."""

import os
import shutil

from support import Skip, rings_in

# Calls every binding that answers without a GPU, including the newest ones. The expected exceptions and texts are NCCL's own.
NCCL4PY = """
import os
import nccl.bindings.nccl as b
import nccl.core as c
found = c.get_version()
# Not its path: nccl4py asks dladdr where a function lies that the recorder wraps (docs/recorder.md).
print("version", b.get_version(), found.nccl4py, found.nccl_bindings, found.libnccl.version)
for result in range(-1, 12):
    try:
        print(result, b.get_error_string(result))
    except Exception as error:
        print(result, type(error).__name__, error)
print("id", type(c.get_unique_id()).__name__)
c.group_start()
c.group_end()
def attempt(name, *arguments):
    try:
        print(name, getattr(b, name)(*arguments))
    except Exception as error:
        print(name, type(error).__name__, error)
attempt("all_reduce", 0, 0, 1, 7, 0, 0, 0)
attempt("all_reduce_config", 0, 0, 1, 7, 0, 0, 0, 0)
attempt("all_gather_config", 0, 0, 1, 7, 0, 0, 0)
attempt("comm_count", 0)
attempt("comm_destroy", 0)
attempt("get_last_error", 0)
attempt("set_encryption", 0)
attempt("param_get_all_keys")
if os.environ.get("MAKE_COMMUNICATOR"):
    attempt("comm_init_all", 1, [0])
"""

JAX = """
import jax, jax.numpy as jnp
print(jax.default_backend(), len(jax.devices()))
f = jax.jit(lambda x: (x @ x.T).sum())
print(float(f(jnp.arange(12.0).reshape(3, 4))))
mesh = jax.make_mesh((4,), ("x",))
from jax.sharding import NamedSharding, PartitionSpec as P
x = jax.device_put(jnp.arange(8.0), NamedSharding(mesh, P("x")))
print(float(jax.jit(lambda v: v.sum())(x)))
"""

MPI = """
from mpi4py import MPI
comm = MPI.COMM_WORLD
total = comm.allreduce(comm.rank + 1)
everyone = comm.gather((comm.rank, total, comm.alltoall([comm.rank * 10 + i for i in range(comm.size)])))
if comm.rank == 0:
    print(everyone, flush=True)
if comm.rank == 1:
    raise SystemExit(STATUS)
"""


def compare(outside, command, rings_expected=0, **environment):
    """Runs a program with and without the recorder. Returns the problems."""
    alone = outside.run(command, preload=False, **environment)
    folder = outside.rings()
    recorded = outside.run(command, preload=True, rings=folder, **environment)
    problems = []
    if alone[0] != recorded[0] or alone[1] != recorded[1]:
        problems.append("alone %d:\n%s%s\nrecorded %d:\n%s%s" % (alone[0], alone[1], alone[2][-600:], recorded[0], recorded[1],
                                                               recorded[2][-600:]))
    if "lockstep" in recorded[2].lower() or "undefined symbol" in recorded[2]:
        problems.append(recorded[2][-600:])
    rings = len(rings_in(folder))
    if rings != rings_expected:
        problems.append("%d rings, not %d" % (rings, rings_expected))
    return alone, problems


def nccl4py(outside):
    python = outside.install("nccl4py", "cuda-bindings", check="import nccl.core")
    library = outside.wheel("nvidia-nccl-cu13", "2.32.3") / "nvidia/nccl/lib"
    for name, rings, more in (("nccl4py, no communicator", 0, {}), ("nccl4py, a communicator that cannot be made", 1,
                                                                    {"MAKE_COMMUNICATOR": "1"})):
        alone, problems = compare(outside, [python, "-c", NCCL4PY], rings, LD_LIBRARY_PATH=str(library), **more)
        if alone[0] != 0:
            problems.append("it ends with %d: %s" % (alone[0], alone[2][-600:]))
        outside.check(name, problems)


def jax(outside):
    python = outside.install("jax[cpu]", check="import jax")
    alone, problems = compare(outside, [python, "-c", JAX], JAX_PLATFORMS="cpu", XLA_FLAGS="--xla_force_host_platform_device_count=4")
    outside.check("JAX on the CPU", problems + ([] if alone[0] == 0 else [alone[2][-600:]]))


def mpi4py(outside):
    mpirun = shutil.which("mpirun")
    if mpirun is None:
        raise Skip("no mpirun")
    python = outside.install("mpi4py", check="from mpi4py import MPI")
    root = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"} if os.geteuid() == 0 else {}
    for status in (0, 3):
        program = outside.temporary / "mpi.py"
        program.write_text(MPI.replace("STATUS", str(status)))
        alone, problems = compare(outside, [mpirun, "-n", "3", "--oversubscribe", python, program], **root)
        if alone[0] != status:
            problems.append("it ends with %d: %s" % (alone[0], alone[2][-600:]))
        outside.check("mpi4py, three ranks, exit status %d" % status, problems)


def run(outside):
    for name, part in (("nccl4py", nccl4py), ("JAX", jax), ("mpi4py", mpi4py)):
        try:
            part(outside)
        except Skip as why:
            outside.skip(name, why)
