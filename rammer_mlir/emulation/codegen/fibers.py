"""Switches between the lanes of a block as fibers, by assembly inside the module.

Each lane runs on a separate stack. ``emulator_switch(save, stack)`` pushes the callee-saved
registers, stores the stack pointer at ``save`` and resumes the execution suspended on ``stack``. A
switch takes about 2 ns. ``swapcontext`` of the C library takes about 300 ns, because two system
calls change the signal mask. A new stack begins in ``emulator_begin``, which calls
``emulator_lane`` with the lane's record.
"""

from __future__ import annotations

from dataclasses import dataclass

from rammer_mlir.errors import TargetError

_X86_64 = """
.text
.globl emulator_switch
.type emulator_switch,@function
emulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    retq
.size emulator_switch, .-emulator_switch
.globl emulator_begin
.type emulator_begin,@function
emulator_begin:
    movq %r12, %rdi
    callq *%r13
    ud2
.size emulator_begin, .-emulator_begin
"""

_AARCH64 = """
.text
.globl emulator_switch
.type emulator_switch,@function
emulator_switch:
    sub sp, sp, #160
    stp x19, x20, [sp, #0]
    stp x21, x22, [sp, #16]
    stp x23, x24, [sp, #32]
    stp x25, x26, [sp, #48]
    stp x27, x28, [sp, #64]
    stp x29, x30, [sp, #80]
    stp d8, d9, [sp, #96]
    stp d10, d11, [sp, #112]
    stp d12, d13, [sp, #128]
    stp d14, d15, [sp, #144]
    mov x2, sp
    str x2, [x0]
    mov sp, x1
    ldp x19, x20, [sp, #0]
    ldp x21, x22, [sp, #16]
    ldp x23, x24, [sp, #32]
    ldp x25, x26, [sp, #48]
    ldp x27, x28, [sp, #64]
    ldp x29, x30, [sp, #80]
    ldp d8, d9, [sp, #96]
    ldp d10, d11, [sp, #112]
    ldp d12, d13, [sp, #128]
    ldp d14, d15, [sp, #144]
    add sp, sp, #160
    ret
.size emulator_switch, .-emulator_switch
.globl emulator_begin
.type emulator_begin,@function
emulator_begin:
    mov x0, x19
    blr x20
    brk #1
.size emulator_begin, .-emulator_begin
"""


@dataclass(frozen=True)
class FiberCode:
    """Code and stack layout for switching fibers on a processor architecture.

    Each new stack gets an initial frame at its highest addresses, from which the fiber starts.

    Attributes:
        assembly: the source text that defines ``emulator_switch`` and ``emulator_begin``.
        frame_words: the size of the initial frame in 64-bit words.
        argument: index of the frame's word that contains the address of the lane's record.
        function: index of the frame's word that contains the address of the function to run.
        resume: index of the frame's word that contains the address of ``emulator_begin``.
    """

    assembly: str
    frame_words: int
    argument: int
    function: int
    resume: int


_CODES = {
    "x86_64": FiberCode(_X86_64, 7, argument=3, function=2, resume=6),
    "aarch64": FiberCode(_AARCH64, 20, argument=0, function=1, resume=11),
}


def fiber_code(triple: str) -> FiberCode:
    """Return the assembly and the stack layout for the processor architecture of ``triple``.

    ``triple`` is the target triple of the machine, such as ``x86_64-linux-gnu``.

    Raises:
        TargetError: if the architecture is not supported.
    """
    architecture = triple.split("-")[0]
    if architecture not in _CODES:
        raise TargetError(
            f"emulation on '{architecture}': expected one of {', '.join(_CODES)}, found another; "
            "emulate on such a machine"
        )
    return _CODES[architecture]
