"""The level of the processor that code is compiled for."""

from ddol.compiled.target import level_of, target


def test_linux_tells_of_the_processor_what_llvm_does():
    import llvmlite.binding as llvm

    present = {name for name, here in llvm.get_host_cpu_features().items() if here}
    assert target().cpu == level_of(present) and target().triple == llvm.get_process_triple()
