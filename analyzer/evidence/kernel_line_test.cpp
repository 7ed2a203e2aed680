#include "analyzer/evidence/kernel_line.h"

#include <gtest/gtest.h>

#include <string>

#include "analyzer/evidence/pci_address.h"

namespace lockstep {
namespace {

TEST(PciAddress, IsNormalized) {
  EXPECT_EQ(PciAddress("00000000:1B:00.0"), "0000:1b:00.0");
  EXPECT_EQ(PciAddress("0000:1b:00"), "0000:1b:00.0");
  EXPECT_EQ(PciAddress("10001:0a:1f.7"), "10001:0a:1f.7");
  for (const char* bad :
       {"", "1b:00.0", "0000:1b:20.0", "0000:1b:00.8", "x:1b:00.0", "0000:100:00.0", "::", "0:0:0.9z"})
    EXPECT_EQ(PciAddress(bad), "") << bad;
}

struct Line {
  const char* text;
  HardwareEvent::Kind kind;
  const char* pci;
  uint32_t code;
  int pid;
};

TEST(KernelLine, KnowsTheKernelsMessages) {
  const Line lines[] = {
      {"NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
       HardwareEvent::XID, "0000:1b:00.0", 79, 0},
      {"NVRM: Xid (PCI:0000:3b:00): 31, pid=48211, name=python3, Ch 00000008, intr 10000000. MMU Fault",
       HardwareEvent::XID, "0000:3b:00.0", 31, 48211},
      {"NVRM: GPU 0000:1b:00.0: GPU has fallen off the bus.", HardwareEvent::XID, "0000:1b:00.0", 0, 0},
      {"nvidia-nvswitch3: SXid (PCI:0000:06:00.0): 12028, Non-fatal, Link 32 egress non-posted PRIV error",
       HardwareEvent::NVSWITCH, "0000:06:00.0", 12028, 0},
      {"pcieport 0000:16:00.0: AER: Multiple Corrected error received: 0000:17:00.0", HardwareEvent::PCIE,
       "0000:16:00.0", 0, 0},
      {"mlx5_core 0000:5e:00.0: AER: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer",
       HardwareEvent::PCIE, "0000:5e:00.0", 0, 0},
      {"mce: [Hardware Error]: Machine check events logged", HardwareEvent::MACHINE_CHECK, "", 0, 0},
      {"EDAC MC0: 1 CE memory read error on CPU_SrcID#0_Ha#0_Chan#1_DIMM#0", HardwareEvent::MACHINE_CHECK, "", 0, 0},
      {"mlx5_core 0000:5e:00.0: Health issue observed, firmware internal error, severity(3) ERROR:",
       HardwareEvent::NETWORK, "0000:5e:00.0", 0, 0},
      {"mlx5_core 0000:5e:00.0 ib0: Link down", HardwareEvent::NETWORK, "0000:5e:00.0", 0, 0},
      {"Out of memory: Killed process 4711 (python3) total-vm:123kB", HardwareEvent::OUT_OF_MEMORY, "", 0, 4711},
      {"oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,task=python3,pid=812,uid=0",
       HardwareEvent::OUT_OF_MEMORY, "", 0, 812},
      {"INFO: task python3:4711 blocked for more than 120 seconds.", HardwareEvent::HUNG_TASK, "", 0, 4711},
      {"python3[4711]: segfault at 0 ip 00007f00 sp 00007f11 error 4 in libfoo.so[7f00+1000]", HardwareEvent::CRASH, "",
       0, 4711},
      {"nfs: server storage1 not responding, still trying", HardwareEvent::STORAGE, "", 0, 0},
      {"blk_update_request: I/O error, dev nvme1n1, sector 12345", HardwareEvent::STORAGE, "", 0, 0},
      {"amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!", HardwareEvent::AMD_GPU, "0000:c1:00.0", 0, 0}};
  for (const Line& line : lines) {
    const std::optional<HardwareEvent> event = ParseHardwareLine(line.text);
    ASSERT_TRUE(event) << line.text;
    EXPECT_EQ(event->kind(), line.kind) << line.text;
    EXPECT_EQ(event->pci(), line.pci) << line.text;
    EXPECT_EQ(event->code(), line.code) << line.text;
    EXPECT_EQ(event->pid(), line.pid) << line.text;
  }
  for (const char* harmless :
       {"usb 1-1: new high-speed USB device", "systemd[1]: Started Session 3",
        "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.104",
        "mlx5_core 0000:5e:00.0: firmware version: 20.38.1002", "EXT4-fs (sda1): mounted filesystem",
        "pcieport 0000:16:00.0: PME: Signaling with IRQ 24", "", "eth0: renamed from veth12"}) {
    EXPECT_FALSE(ParseHardwareLine(harmless)) << harmless;
  }
}

// dmesg, dmesg -T, dmesg -H, journalctl, syslog, and a copied message.
TEST(KernelLine, IsFoundAmongLinesOfAnyProgram) {
  const std::string killed = "Memory cgroup out of memory: Killed process 4711 (python3) total-vm:123kB";
  for (const char* before : {"", "[12345.678901] ", "[Fri Nov 20 10:11:12 2026] ", "[  +0.000316] ",
                             "Nov 20 10:11:12 gpu07 kernel: ", "2026-11-20T10:11:12.5+00:00 gpu07 kernel: [ 1.5] "}) {
    const std::optional<KernelLine> line = ParseKernelLine(before + killed);
    ASSERT_TRUE(line) << before;
    EXPECT_EQ(line->event.pid(), 4711) << before;
    EXPECT_EQ(line->host, std::string(before).find("gpu07") == std::string::npos ? "" : "gpu07");
  }
  // Other programs also write about errors.
  for (const char* other : {"mlx5_0: error", "[rank0]: Out of memory: Killed process 4711 (python3)",
                            "gpu07:1:2 [0] NCCL WARN mlx5_0 error", "[info] EXT4-fs error",
                            "saw an I/O error, [12.5] nvme nvme0: I/O error"})
    EXPECT_FALSE(ParseKernelLine(other)) << other;
}

}  // namespace
}  // namespace lockstep
