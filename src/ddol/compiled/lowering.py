"""The machine code of `ddol.compiled.intrinsics`, by Numba's public ways to extend it.

Importing this module teaches Numba the names; what each means is said beside its stub.
"""

from __future__ import annotations

import inspect
import operator
import sys
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    infer_getattr,
    lower_builtin,
    lower_getattr_generic,
    models,
    overload,
    register_model,
    type_callable,
)

from ddol.compiled import intrinsics

_WORD, _HALF, _BYTE = ir.IntType(64), ir.IntType(32), ir.IntType(8)
_DOUBLE = ir.DoubleType()
_ROWS = 32
"""Rows of a state that are told apart."""


@overload(intrinsics.column, inline="always")
def _column(index, j):  # type: ignore[no-untyped-def]  # Numba compares signatures
    if isinstance(index, types.Integer):
        return lambda index, j: j
    return lambda index, j: index[j]


@overload(intrinsics.sparse, inline="always")
def _sparse(index):  # type: ignore[no-untyped-def]
    if isinstance(index, types.Integer):
        return lambda index: False
    return lambda index: True


def _means(name: str, typed: Callable) -> Callable:
    """Give an intrinsic its types, a function of those of its arguments, and its machine code.

    The machine code is a function of Numba's context, LLVM's builder, the types and LLVM's values.
    """
    stub = getattr(intrinsics, name)

    def bind(generate: Callable) -> Callable:
        @type_callable(stub)
        def typing(context: Any) -> Callable:
            def found(*arguments: Any) -> Any:
                return typed(*arguments)

            found.pysig = inspect.signature(stub)  # type: ignore[attr-defined]
            return found

        lower_builtin(stub, types.VarArg(types.Any))(generate)
        return generate

    return bind


def _function(builder: Any, name: str, kind: Any) -> Any:
    """A function of C or LLVM, declared once in a module."""
    return builder.module.globals.get(name) or ir.Function(builder.module, kind, name)


# --- memory --------------------------------------------------------------------------------------


def _pointer(name: str, kind: Any) -> None:
    pointer = types.CPointer(kind)

    @_means(name, lambda address: pointer(types.int64))
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        return builder.inttoptr(values[0], context.get_value_type(pointer))


_pointer("floats", types.float64)
_pointer("integers", types.int64)
_pointer("indices", types.uint32)
_pointer("ints", types.int32)
_pointer("bytes_at", types.uint8)


@_means("address_of", lambda pointer, places: types.int64(pointer, types.int64))
def _address_of(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    return builder.ptrtoint(builder.gep(values[0], [values[1]]), _WORD)


class _Row(types.Type):
    """A pointer to one row of a state. Loops over several rows need not look whether they overlap."""

    def __init__(self, place: int) -> None:
        self.place = place
        super().__init__(f"Row({place})")


@register_model(_Row)
class _RowModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _DOUBLE.as_pointer())


def _row_of(w: Any, k: Any, D: Any) -> Any:
    if not isinstance(k, types.IntegerLiteral):
        return None  # Numba asks again with the constant, if it is one
    return _Row(k.literal_value)(w, k, D)


@_means("row", _row_of)
def _row(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    start = builder.mul(values[2], ir.Constant(_WORD, signature.return_type.place))
    return builder.gep(values[0], [start])


def _apart(builder: Any, access: Any, place: int) -> Any:
    """Say of a load or store that it is of one row, and of no other."""
    add = builder.module.add_metadata
    domain = add(["rows of a state"])
    scopes = [add([f"row {k}", domain]) for k in range(_ROWS)]
    access.set_metadata("alias.scope", add([scopes[place]]))
    access.set_metadata("noalias", add([s for k, s in enumerate(scopes) if k != place]))
    return access


def _place(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    d = context.cast(builder, values[1], signature.args[1], types.int64)
    return builder.gep(values[0], [d])


@type_callable(operator.getitem)
def _type_of_item(context: Any) -> Callable:
    return lambda row, d: types.float64 if isinstance(row, _Row) else None


@lower_builtin(operator.getitem, _Row, types.Integer)
def _item(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    place = _place(context, builder, signature, values)
    return _apart(builder, builder.load(place), signature.args[0].place)


@type_callable(operator.setitem)
def _type_of_setting(context: Any) -> Callable:
    return lambda row, d, value: types.void if isinstance(row, _Row) else None


@lower_builtin(operator.setitem, _Row, types.Integer, types.Float)
def _set_item(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    place = _place(context, builder, signature, values)
    _apart(builder, builder.store(values[2], place), signature.args[0].place)
    return context.get_dummy_value()


@_means("bits", lambda number: types.int64(types.float64))
def _bits(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    return builder.bitcast(values[0], _WORD)


@_means("from_bits", lambda word: types.float64(types.uint64))
def _from_bits(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    return builder.bitcast(values[0], _DOUBLE)


@_means("first_of", lambda address, byte: types.int64(types.int64, types.int64))
def _first_of(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    kind = ir.VectorType(_BYTE, 64)
    found = builder.load(builder.inttoptr(values[0], kind.as_pointer()), align=1)
    wanted = ir.Constant(kind, ir.Undefined)
    wanted = builder.insert_element(wanted, builder.trunc(values[1], _BYTE), _HALF(0))
    everywhere = ir.Constant(ir.VectorType(_HALF, 64), [0] * 64)
    wanted = builder.shuffle_vector(wanted, wanted, everywhere)
    same = builder.bitcast(builder.icmp_unsigned("==", found, wanted), _WORD)
    return builder.cttz(same, ir.Constant(ir.IntType(1), 0))  # 64 of 0


@_means("word_at", lambda address: types.uint64(types.int64))
def _word_at(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    found = builder.load(builder.inttoptr(values[0], _WORD.as_pointer()), align=1)
    return found if sys.byteorder == "little" else builder.bswap(found)


@_means("trailing_zeros", lambda word: types.int64(types.uint64))
def _trailing_zeros(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    return builder.cttz(values[0], ir.Constant(ir.IntType(1), 0))


def _copy_eight(name: str, kind: Any, more: int) -> None:
    """Define a copy of eight numbers at once, each larger by ``more``."""

    @_means(name, lambda source, target: types.void(types.int64, types.int64))
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        eight = ir.VectorType(kind, 8)
        source, target = (builder.inttoptr(value, eight.as_pointer()) for value in values)
        found = builder.load(source, align=1)
        if more:
            found = builder.add(found, ir.Constant(eight, [more] * 8))
        builder.store(found, target, align=1)
        return context.get_dummy_value()


_copy_eight("copy_floats", _DOUBLE, 0)
_copy_eight("copy_raised", _HALF, 1)


def _prefetch(name: str, locality: int) -> None:
    """Define a request for a cache line; locality 3 is the nearest cache."""

    @_means(name, lambda address: types.void(types.int64))
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        byte = _BYTE.as_pointer()
        kind = ir.FunctionType(ir.VoidType(), [byte, _HALF, _HALF, _HALF])
        name = "llvm.prefetch.p0i8" if "i8*" in str(byte) else "llvm.prefetch.p0"
        read, near, data = (ir.Constant(_HALF, k) for k in (0, locality, 1))
        arguments = [builder.inttoptr(values[0], byte), read, near, data]
        builder.call(_function(builder, name, kind), arguments)
        return context.get_dummy_value()


_prefetch("prefetch", 3)
_prefetch("prefetch_far", 2)


class _Struct(types.Type):
    """The NamedTuple that lies behind a pointer. Functions pass the pointer on, not all of its fields."""

    def __init__(self, kind: Any) -> None:
        self.kind = kind
        super().__init__(f"Struct({kind.__module__}.{kind.__qualname__})")

    def field(self, name: str) -> tuple[int, Any]:
        """Place, in bytes, and type of a field."""
        place, kind = intrinsics.places_of(self.kind)[name]
        known = {float: types.float64, bool: types.boolean, int: types.int64}
        return place, known.get(kind) or _Struct(kind)


@register_model(_Struct)
class _StructModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _BYTE.as_pointer())


@infer_getattr
class _Fields(AttributeTemplate):
    key = _Struct

    def generic_resolve(self, kind: Any, name: str) -> Any:
        return kind.field(name)[1] if name in kind.kind._fields else None


@lower_getattr_generic(_Struct)
def _field(context: Any, builder: Any, kind: Any, value: Any, name: str) -> Any:
    place, found = kind.field(name)
    there = builder.gep(value, [ir.Constant(_WORD, place)])
    if isinstance(found, _Struct):
        return there
    stored = _DOUBLE if found is types.float64 else _WORD
    loaded = builder.load(builder.bitcast(there, stored.as_pointer()))
    # Nobody writes to it: what was read once, or compared, is known from there on.
    loaded.set_metadata("invariant.load", builder.module.add_metadata([]))
    if found is types.boolean:
        return builder.icmp_signed("!=", loaded, ir.Constant(_WORD, 0))
    return loaded


@_means("unpacked", lambda kind, data: _Struct(kind.instance_class)(kind, data))
def _unpacked(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    return values[1]


# --- calls ---------------------------------------------------------------------------------------


def _call(name: str, result: Any, llvm_result: Any) -> None:
    """Define a call of the C function at an address with a tuple of arguments."""

    @_means(name, lambda address, arguments: result(types.int64, arguments))
    def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
        inner = [builder.extract_value(values[1], k) for k in range(len(signature.args[1]))]
        kind = ir.FunctionType(llvm_result, [value.type for value in inner])
        found = builder.call(builder.inttoptr(values[0], kind.as_pointer()), inner)
        if result is types.void:
            return context.get_dummy_value()
        return builder.sext(found, _WORD) if llvm_result is _HALF else found


_call("call_float", types.float64, _DOUBLE)
_call("call_int", types.int64, _WORD)
_call("call_int32", types.int64, _HALF)
_call("call_void", types.void, ir.VoidType())


# --- threads: what Numba does not offer on the CPU, LLVM's own instructions ------------------------


@_means("atomic_add", lambda words, i, value: types.int64(words, types.int64, types.int64))
def _atomic_add(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    place = builder.gep(values[0], [values[1]])
    return builder.atomic_rmw("add", place, values[2], "acq_rel")


@_means("atomic_load", lambda words, i: types.int64(words, types.int64))
def _atomic_load(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    return builder.load_atomic(builder.gep(values[0], [values[1]]), "acquire", 8)


@_means("atomic_store", lambda words, i, value: types.void(words, types.int64, types.int64))
def _atomic_store(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    builder.store_atomic(values[2], builder.gep(values[0], [values[1]]), "release", 8)
    return context.get_dummy_value()


@_means("pause", lambda: types.void())
def _pause(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    # Inline assembly would abort the interpreter; elsewhere than on x86 yielding is enough.
    if builder.module.triple.startswith(("x86", "i386", "i686", "amd64")):
        kind = ir.FunctionType(ir.VoidType(), [])
        builder.call(builder.module.declare_intrinsic("llvm.x86.sse2.pause", (), kind), [])
    return context.get_dummy_value()


@_means("yield_core", lambda: types.void())
def _yield_core(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    builder.call(_function(builder, "sched_yield", ir.FunctionType(_HALF, [])), [])
    return context.get_dummy_value()


@_means("nap", lambda microseconds: types.void(types.int64))
def _nap(context: Any, builder: Any, signature: Any, values: Any) -> Any:
    function = _function(builder, "usleep", ir.FunctionType(_HALF, [_HALF]))
    builder.call(function, [builder.trunc(values[0], _HALF)])
    return context.get_dummy_value()
