// The machine code of the dlsym hook: the exported dlsym and dlvsym, and the wrappers' entry points for each NCCL
// library. It is written in assembly because compiled code would call from this library. The real dlsym would then
// treat this library as the caller.
#include "recorder/calls/hook_entry.h"

#include <stddef.h>
#include <string.h>

#include "recorder/abi/nccl_names.h"
#include "recorder/core/real.h"

extern "C" {
__attribute__((visibility("hidden"))) void* (*lockstep_next_dlsym)(void*, const char*) = nullptr;
__attribute__((visibility("hidden"))) void* (*lockstep_libc_dlsym)(void*, const char*) = nullptr;
__attribute__((visibility("hidden"))) void* (*lockstep_next_dlvsym)(void*, const char*, const char*) = nullptr;
}

// clang-format off
#if defined(__x86_64__)
// Two characters exclude almost every other name: "nc", "pn", "ms", "pm", "cu", "hi", "dl".
#define LOCKSTEP_LOOKUP_ENTRY(NAME, NEXT, WHICH) \
  ".p2align 4\n"                                     \
  ".globl " NAME "\n.type " NAME ", @function\n"     \
  NAME ":\n"                                         \
  ".cfi_startproc\n"                                 \
  "  endbr64\n"                                      \
  "  testq %rsi, %rsi\n  je 1f\n"                    \
  "  cmpb $0, (%rsi)\n  je 1f\n"                     \
  "  movzwl (%rsi), %eax\n"                          \
  "  cmpl $0x636e, %eax\n  je 2f\n"                  \
  "  cmpl $0x6e70, %eax\n  je 2f\n"                  \
  "  cmpl $0x736d, %eax\n  je 2f\n"                  \
  "  cmpl $0x6d70, %eax\n  je 2f\n"                  \
  "  cmpl $0x7563, %eax\n  je 2f\n"                  \
  "  cmpl $0x6968, %eax\n  je 2f\n"                  \
  "  cmpl $0x6c64, %eax\n  je 2f\n"                  \
  "1: movq " NEXT "(%rip), %rax\n"                   \
  "  testq %rax, %rax\n  je 3f\n"                    \
  "  jmp *%rax\n"                                    \
  "2: pushq %rdi\n.cfi_adjust_cfa_offset 8\n"        \
  "  pushq %rsi\n.cfi_adjust_cfa_offset 8\n"         \
  "  pushq %rdx\n.cfi_adjust_cfa_offset 8\n"         \
  "  cmpq $0, " NEXT "(%rip)\n  jne 4f\n"            \
  "  movl $" WHICH ", %edi\n"                    \
  "  call lockstep_hook_next\n"                      \
  "  movq 16(%rsp), %rdi\n  movq 8(%rsp), %rsi\n  movq (%rsp), %rdx\n" \
  "4: movq 24(%rsp), %rcx\n"                         \
  "  movl $" WHICH ", %r8d\n"                    \
  "  call lockstep_hook_answer\n"                    \
  "  popq %rdx\n.cfi_adjust_cfa_offset -8\n"         \
  "  popq %rsi\n.cfi_adjust_cfa_offset -8\n"         \
  "  popq %rdi\n.cfi_adjust_cfa_offset -8\n"         \
  "  testq %rax, %rax\n  je 1b\n"                    \
  "  xorl %ecx, %ecx\n"                              \
  "  cmpq $1, %rax\n  cmoveq %rcx, %rax\n"           \
  "  ret\n"                                          \
  "3: pushq %rdi\n.cfi_adjust_cfa_offset 8\n"        \
  "  pushq %rsi\n.cfi_adjust_cfa_offset 8\n"         \
  "  pushq %rdx\n.cfi_adjust_cfa_offset 8\n"         \
  "  movl $" WHICH ", %edi\n"                    \
  "  call lockstep_hook_next\n"                      \
  "  popq %rdx\n.cfi_adjust_cfa_offset -8\n"         \
  "  popq %rsi\n.cfi_adjust_cfa_offset -8\n"         \
  "  popq %rdi\n.cfi_adjust_cfa_offset -8\n"         \
  "  jmp *%rax\n"                                    \
  ".cfi_endproc\n"                                   \
  ".size " NAME ", .-" NAME "\n"

#define LOCKSTEP_ASK_AND_JUMP(VALUE, NAME)            \
  "  endbr64\n"                                       \
  "  movq lockstep_asked@gottpoff(%rip), %rax\n"      \
  "  movl $" VALUE ", %fs:(%rax)\n"                   \
  "  jmp " NAME "\n"

#elif defined(__aarch64__)
#define LOCKSTEP_LOOKUP_ENTRY(NAME, NEXT, WHICH) \
  ".p2align 4\n"                                     \
  ".globl " NAME "\n.type " NAME ", %function\n"     \
  NAME ":\n"                                         \
  ".cfi_startproc\n"                                 \
  "  hint #34\n"                                     \
  "  cbz x1, 1f\n"                                   \
  "  ldrb w16, [x1]\n  cbz w16, 1f\n"                \
  "  ldrb w17, [x1, #1]\n"                           \
  "  orr w16, w16, w17, lsl #8\n"                    \
  "  mov w17, #0x636e\n  cmp w16, w17\n  b.eq 2f\n"  \
  "  mov w17, #0x6e70\n  cmp w16, w17\n  b.eq 2f\n"  \
  "  mov w17, #0x736d\n  cmp w16, w17\n  b.eq 2f\n"  \
  "  mov w17, #0x6d70\n  cmp w16, w17\n  b.eq 2f\n"  \
  "  mov w17, #0x7563\n  cmp w16, w17\n  b.eq 2f\n"  \
  "  mov w17, #0x6968\n  cmp w16, w17\n  b.eq 2f\n"  \
  "  mov w17, #0x6c64\n  cmp w16, w17\n  b.eq 2f\n"  \
  "1: adrp x16, " NEXT "\n"                          \
  "  ldr x16, [x16, :lo12:" NEXT "]\n"               \
  "  cbz x16, 3f\n"                                  \
  "  br x16\n"                                       \
  "2: stp x29, x30, [sp, #-48]!\n"                   \
  ".cfi_def_cfa_offset 48\n.cfi_offset x29, -48\n.cfi_offset x30, -40\n" \
  "  mov x29, sp\n"                                  \
  "  stp x0, x1, [sp, #16]\n  str x2, [sp, #32]\n"   \
  "  adrp x16, " NEXT "\n"                           \
  "  ldr x16, [x16, :lo12:" NEXT "]\n"               \
  "  cbnz x16, 4f\n"                                 \
  "  mov w0, #" WHICH "\n"                       \
  "  bl lockstep_hook_next\n"                        \
  "  ldp x0, x1, [sp, #16]\n  ldr x2, [sp, #32]\n"   \
  "4: ldr x3, [sp, #8]\n"                            \
  "  mov w4, #" WHICH "\n"                       \
  "  bl lockstep_hook_answer\n"                      \
  "  mov x16, x0\n"                                  \
  "  ldp x0, x1, [sp, #16]\n  ldr x2, [sp, #32]\n"   \
  "  ldp x29, x30, [sp], #48\n"                      \
  ".cfi_remember_state\n.cfi_restore x29\n.cfi_restore x30\n.cfi_def_cfa_offset 0\n" \
  "  cbz x16, 1b\n"                                  \
  "  cmp x16, #1\n  csel x0, xzr, x16, eq\n"         \
  "  ret\n"                                          \
  "3: stp x29, x30, [sp, #-48]!\n"                   \
  ".cfi_restore_state\n"                             \
  "  mov x29, sp\n"                                  \
  "  stp x0, x1, [sp, #16]\n  str x2, [sp, #32]\n"   \
  "  mov w0, #" WHICH "\n"                       \
  "  bl lockstep_hook_next\n"                        \
  "  mov x16, x0\n"                                  \
  "  ldp x0, x1, [sp, #16]\n  ldr x2, [sp, #32]\n"   \
  "  ldp x29, x30, [sp], #48\n"                      \
  ".cfi_restore x29\n.cfi_restore x30\n.cfi_def_cfa_offset 0\n" \
  "  br x16\n"                                       \
  ".cfi_endproc\n"                                   \
  ".size " NAME ", .-" NAME "\n"

#define LOCKSTEP_ASK_AND_JUMP(VALUE, NAME)            \
  "  hint #34\n"                                      \
  "  adrp x16, :gottprel:lockstep_asked\n"            \
  "  ldr x16, [x16, #:gottprel_lo12:lockstep_asked]\n" \
  "  mrs x17, tpidr_el0\n"                            \
  "  add x16, x16, x17\n"                             \
  "  mov w17, #" VALUE "\n"                           \
  "  str w17, [x16]\n"                                \
  "  b " NAME "\n"
#else
#error "The dlsym hook is written for x86-64 and aarch64."
#endif

// Uses only registers that contain no argument. The call keeps the caller's return address and stack.
#define LOCKSTEP_ASKING_ENTRY(ENTRY, VALUE, NAME, SYMBOL)                  \
  ".p2align 4\n.globl " ENTRY "\n" SYMBOL ".type " ENTRY ", %function\n"  \
  ENTRY ":\n.cfi_startproc\n"                                             \
  LOCKSTEP_ASK_AND_JUMP(VALUE, NAME)                                       \
  ".cfi_endproc\n.size " ENTRY ", .-" ENTRY "\n"

#define LOCKSTEP_COPY_ENTRY(COPY, NAME)                                    \
  LOCKSTEP_ASKING_ENTRY("lockstep_copy" #COPY "_" #NAME, #COPY " + 1", #NAME, ".hidden lockstep_copy" #COPY "_" #NAME "\n")

// The second name under which NCCL exports the function, with a leading "p".
#define LOCKSTEP_TWIN_ENTRY(NAME) LOCKSTEP_ASKING_ENTRY("p" #NAME, "5", #NAME, ".symver p" #NAME ", p" #NAME "@LOCKSTEP\n")

#define LOCKSTEP_COPY_ENTRIES(NAME) \
  LOCKSTEP_COPY_ENTRY(0, NAME) LOCKSTEP_COPY_ENTRY(1, NAME) LOCKSTEP_COPY_ENTRY(2, NAME) LOCKSTEP_COPY_ENTRY(3, NAME)

__asm__(".pushsection .text\n"
        LOCKSTEP_LOOKUP_ENTRY("dlsym", "lockstep_next_dlsym", "0")
        LOCKSTEP_LOOKUP_ENTRY("dlvsym", "lockstep_next_dlvsym", "1")
        ".hidden lockstep_dlsym_of_libc\n"
        LOCKSTEP_LOOKUP_ENTRY("lockstep_dlsym_of_libc", "lockstep_libc_dlsym", "2")
        LOCKSTEP_RECORDED_NAMES(LOCKSTEP_COPY_ENTRIES)
        LOCKSTEP_RECORDED_NAMES(LOCKSTEP_TWIN_ENTRY)
        ".popsection\n");

#define LOCKSTEP_DECLARE(NAME)                                                                                 \
  extern "C" __attribute__((visibility("default"))) void NAME();                                               \
  LOCKSTEP_LOCAL void lockstep_copy0_##NAME();                                                                 \
  LOCKSTEP_LOCAL void lockstep_copy1_##NAME();                                                                 \
  LOCKSTEP_LOCAL void lockstep_copy2_##NAME();                                                                 \
  LOCKSTEP_LOCAL void lockstep_copy3_##NAME();
LOCKSTEP_RECORDED_NAMES(LOCKSTEP_DECLARE)

// clang-format on

namespace lockstep::recorder {

static_assert(kMaxNcclCopies == 4 && kAskedTwin == 5 && offsetof(AskedLibrary, asked) == 0);

#define LOCKSTEP_ENTRY(NAME)                                                                          \
  {#NAME,                                                                                             \
   reinterpret_cast<void*>(&NAME),                                                                    \
   {reinterpret_cast<void*>(&lockstep_copy0_##NAME), reinterpret_cast<void*>(&lockstep_copy1_##NAME), \
    reinterpret_cast<void*>(&lockstep_copy2_##NAME), reinterpret_cast<void*>(&lockstep_copy3_##NAME)}},
static const HookedNccl kHookedNccl[] = {LOCKSTEP_RECORDED_NAMES(LOCKSTEP_ENTRY)};

const HookedNccl* FindHookedNccl(const char* name) noexcept {
  for (const HookedNccl& hooked : kHookedNccl) {
    if (strcmp(hooked.name, name) == 0) return &hooked;
  }
  return nullptr;
}

}  // namespace lockstep::recorder
