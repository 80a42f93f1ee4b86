"""How Python functions become parts of the compiled kernel.

A part (a loss, one loop of an update rule, a communicator) is a plain Python function. It is
compiled on its own, to a C function, and the kernel calls it by its address. So combinations of parts
need not be compiled together (`ddol.update.turns` is the one place where that pays), every part is kept
on disk on its own, and a user's part is compiled exactly like ours.

- `parts`: what is compiled, and when: `compile_part`, `entry`, `inner`.
- `intrinsics`: what compiled code can say beyond plain Python: `column`, `floats`, `call_float`, …
- `digest`, `store`, `folder`: object code, known by what its function says, kept on disk, and
  loaded.
- `target`: the level of the processor that it is for.
- `compiler`, `lowering`: Numba, which only a process that has something to compile imports, and
  `object_code`, what rests on Numba's private names.
"""

from ddol.compiled.intrinsics import (
    address_of,
    atomic_add,
    atomic_load,
    atomic_store,
    bits,
    bytes_at,
    call_float,
    call_int,
    call_int32,
    call_void,
    column,
    copy_floats,
    copy_raised,
    first_of,
    floats,
    from_bits,
    indices,
    integers,
    ints,
    nap,
    pause,
    prefetch,
    prefetch_far,
    row,
    sparse,
    trailing_zeros,
    unpacked,
    word_at,
    yield_core,
)
from ddol.compiled.parts import (
    INTERPRETED,
    CompileError,
    Entry,
    Signature,
    address,
    check_arguments,
    compile_part,
    entry,
    inner,
    loaded_names,
    on_compiling,
    packed,
    scalar,
)

__all__ = [
    "INTERPRETED",
    "CompileError",
    "Entry",
    "Signature",
    "address",
    "address_of",
    "atomic_add",
    "atomic_load",
    "atomic_store",
    "bits",
    "bytes_at",
    "call_float",
    "call_int",
    "call_int32",
    "call_void",
    "check_arguments",
    "column",
    "compile_part",
    "copy_floats",
    "copy_raised",
    "entry",
    "first_of",
    "floats",
    "from_bits",
    "indices",
    "inner",
    "integers",
    "ints",
    "loaded_names",
    "nap",
    "on_compiling",
    "packed",
    "pause",
    "prefetch",
    "prefetch_far",
    "row",
    "scalar",
    "sparse",
    "trailing_zeros",
    "unpacked",
    "word_at",
    "yield_core",
]
