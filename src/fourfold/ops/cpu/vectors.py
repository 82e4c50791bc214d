"""Vector registers for the CPU kernels: a Numba type, and routines written in LLVM's own terms.

Numba compiles scalar loops and leaves vectors to chance. The kernels say what they want: whole
registers, loaded, multiplied and added (``load``, ``store``, ``fma``, ``total``), and a few larger
routines (``tiles.py``) whose register use decides the speed. All take pointers; bfloat16 arrives as
uint16 and is widened to float32 on the way in, rounded to nearest even on the way out.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.core.datamodel import models
from numba.extending import intrinsic, register_model

_FEATURES = llvmlite.binding.get_host_cpu_features()
_VECTOR_BYTES = 64 if _FEATURES.get("avx512f") else 32 if _FEATURES.get("avx") else 16
REGISTERS = 16 if "sse2" in _FEATURES and _VECTOR_BYTES < 64 else 32
"""Vector registers to plan with: SSE and AVX2 have half as many as AVX-512 and NEON."""

INDEX = ir.IntType(64)

device = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, error_model="numpy")
"""Decorator of functions that only kernels call: no entry from Python has to be compiled."""


def number_type(pointer: types.CPointer) -> types.Float:
    """What a pointer's numbers are computed in."""
    return types.float32 if pointer.dtype == types.uint16 else pointer.dtype


def lane_count(pointer: types.CPointer) -> int:
    return _VECTOR_BYTES // (number_type(pointer).bitwidth // 8)


class Vector(types.Type):
    """One register full of float32 or float64."""

    def __init__(self, dtype: types.Float) -> None:
        self.dtype = dtype
        super().__init__(name=f"Vector({dtype})")


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):
    def __init__(self, manager: Any, vector: Vector) -> None:
        scalar = ir.FloatType() if vector.dtype == types.float32 else ir.DoubleType()
        lanes = _VECTOR_BYTES // (vector.dtype.bitwidth // 8)
        super().__init__(manager, vector, ir.VectorType(scalar, lanes))


class Emitter:
    """Writes vector instructions for the numbers behind one pointer type."""

    def __init__(self, builder: ir.IRBuilder, pointer: types.CPointer) -> None:
        self.builder = builder
        self.half = pointer.dtype == types.uint16
        self.lanes = lane_count(pointer)
        self.suffix = "f32" if number_type(pointer) == types.float32 else "f64"
        self.scalar = ir.FloatType() if self.suffix == "f32" else ir.DoubleType()
        self.type = ir.VectorType(self.scalar, self.lanes)
        self._bits = ir.VectorType(ir.IntType(32), self.lanes)
        self._halves = ir.VectorType(ir.IntType(16), self.lanes)

    def index(self, value: int) -> ir.Constant:
        return ir.Constant(INDEX, value)

    @property
    def zero(self) -> ir.Constant:
        return ir.Constant(self.type, [0.0] * self.lanes)

    def load(self, base: ir.Value, offset: ir.Value) -> ir.Value:
        at = self.builder.gep(base, [offset])
        if not self.half:
            size = self.scalar_bytes
            return self.builder.load(self.builder.bitcast(at, self.type.as_pointer()), align=size)
        pointer = self.builder.bitcast(at, self._halves.as_pointer())
        return self._widen(self.builder.load(pointer, align=2))

    def store(self, value: ir.Value, base: ir.Value, offset: ir.Value) -> None:
        at = self.builder.gep(base, [offset])
        if not self.half:
            pointer = self.builder.bitcast(at, self.type.as_pointer())
            self.builder.store(value, pointer, align=self.scalar_bytes)
            return
        pointer = self.builder.bitcast(at, self._halves.as_pointer())
        self.builder.store(self._narrow(value), pointer, align=2)

    def load_first(self, base: ir.Value, offset: ir.Value, count: ir.Value) -> ir.Value:
        """The first ``count`` numbers, zeros in the other lanes; nothing else is touched."""
        kind = self._halves if self.half else self.type
        at = self.builder.bitcast(self.builder.gep(base, [offset]), kind.as_pointer())
        name = f"llvm.masked.load.v{self.lanes}{'i16' if self.half else self.suffix}.p0"
        mask = self._first(count)
        arguments = [at, ir.Constant(ir.IntType(32), 2), mask, ir.Constant(kind, None)]
        function = cgutils.get_or_insert_function(
            self.builder.module, ir.FunctionType(kind, [x.type for x in arguments]), name
        )
        value = self.builder.call(function, arguments)
        return self._widen(value) if self.half else value

    def store_first(
        self, value: ir.Value, base: ir.Value, offset: ir.Value, count: ir.Value
    ) -> None:
        """The first ``count`` lanes; nothing else is touched."""
        kind = self._halves if self.half else self.type
        at = self.builder.bitcast(self.builder.gep(base, [offset]), kind.as_pointer())
        value = self._narrow(value) if self.half else value
        name = f"llvm.masked.store.v{self.lanes}{'i16' if self.half else self.suffix}.p0"
        arguments = [value, at, ir.Constant(ir.IntType(32), 2), self._first(count)]
        function = cgutils.get_or_insert_function(
            self.builder.module, ir.FunctionType(ir.VoidType(), [x.type for x in arguments]), name
        )
        self.builder.call(function, arguments)

    def _widen(self, halves: ir.Value) -> ir.Value:
        wide = self.builder.zext(halves, self._bits)
        return self.builder.bitcast(self.builder.shl(wide, self._all(16)), self.type)

    def _narrow(self, value: ir.Value) -> ir.Value:
        bits = self.builder.bitcast(value, self._bits)
        odd = self.builder.and_(self.builder.lshr(bits, self._all(16)), self._all(1))
        rounded = self.builder.add(self.builder.add(bits, self._all(0x7FFF)), odd)
        # Rounding would carry some NaN over into infinity.
        is_nan = self.builder.fcmp_unordered("uno", value, value)
        bits = self.builder.select(is_nan, self._all(0x7FC00000), rounded)
        return self.builder.trunc(self.builder.lshr(bits, self._all(16)), self._halves)

    @property
    def scalar_bytes(self) -> int:
        return 4 if self.suffix == "f32" else 8

    def _all(self, bits: int) -> ir.Constant:
        return ir.Constant(self._bits, [bits] * self.lanes)

    def spread(self, scalar: ir.Value) -> ir.Value:
        """One number in every lane."""
        empty = ir.Constant(self.type, ir.Undefined)
        first = self.builder.insert_element(empty, scalar, ir.Constant(ir.IntType(32), 0))
        return self.builder.shuffle_vector(first, empty, self._all(0))

    def load_spread(self, base: ir.Value, offset: ir.Value) -> ir.Value:
        return self.spread(self.builder.load(self.builder.gep(base, [offset])))

    def fma(self, a: ir.Value, b: ir.Value, c: ir.Value) -> ir.Value:
        function = cgutils.get_or_insert_function(
            self.builder.module,
            ir.FunctionType(self.type, [self.type] * 3),
            f"llvm.fmuladd.v{self.lanes}{self.suffix}",
        )
        return self.builder.call(function, [a, b, c])

    def total(self, vector: ir.Value) -> ir.Value:
        function = cgutils.get_or_insert_function(
            self.builder.module,
            ir.FunctionType(self.scalar, [self.scalar, self.type]),
            f"llvm.vector.reduce.fadd.v{self.lanes}{self.suffix}",
        )
        start = ir.Constant(self.scalar, 0.0)
        return self.builder.call(function, [start, vector], fastmath=("reassoc",))

    def largest(self, vector: ir.Value) -> ir.Value:
        function = cgutils.get_or_insert_function(
            self.builder.module,
            ir.FunctionType(self.scalar, [self.type]),
            f"llvm.vector.reduce.fmax.v{self.lanes}{self.suffix}",
        )
        return self.builder.call(function, [vector])

    def maximum(self, a: ir.Value, b: ir.Value) -> ir.Value:
        return self.builder.select(self.builder.fcmp_ordered(">", a, b), a, b)

    def below(self, vector: ir.Value, limit: ir.Value) -> ir.Value:
        """Zero in the lanes from ``limit`` on."""
        return self.builder.select(self._first(limit), vector, self.zero)

    def _first(self, count: ir.Value) -> ir.Value:
        """Lanes with a number below ``count``."""
        wide = ir.VectorType(INDEX, self.lanes)
        empty = ir.Constant(wide, ir.Undefined)
        first = self.builder.insert_element(empty, count, ir.Constant(ir.IntType(32), 0))
        limits = self.builder.shuffle_vector(first, empty, self._all(0))
        lane = ir.Constant(wide, list(range(self.lanes)))
        return self.builder.icmp_signed("<", lane, limits)

    def exp(self, x: ir.Value) -> ir.Value:
        """eˣ; in float32 to 2 units in the last place, with what underflows set to zero."""
        if self.suffix == "f64":
            return self._function("llvm.exp", x)
        builder = self.builder
        # eˣ = 2ⁿ eʳ with r = x − n ln 2 in [−ln 2 / 2, ln 2 / 2]; past ±87.3 clamp n's range.
        clamped = self._function("llvm.maxnum", self._function("llvm.minnum", x, 88.0), -87.3)
        n = self._function("llvm.rint", builder.fmul(clamped, self._every(1.4426950408889634)))
        r = self.fma(n, self._every(-0.693359375), clamped)
        r = self.fma(n, self._every(2.12194440054690583e-4), r)
        # The Taylor series to degree 7: its error over the interval is below 2e-9.
        value = self._every(1 / 5040)
        for factorial in (720, 120, 24, 6, 2, 1, 1):
            value = self.fma(value, r, self._every(1 / factorial))
        exponent = builder.shl(builder.fptosi(n, self._bits), self._all(23))
        scaled = builder.bitcast(
            builder.add(builder.bitcast(value, self._bits), exponent), self.type
        )
        small = builder.fcmp_ordered("<", x, self._every(-87.3))
        large = builder.fcmp_ordered(">", x, self._every(88.0))
        result = builder.select(large, self._every(float("inf")), scaled)
        result = builder.select(small, self.zero, result)
        return builder.select(builder.fcmp_unordered("uno", x, x), x, result)

    def _every(self, number: float) -> ir.Constant:
        return ir.Constant(self.type, [number] * self.lanes)

    def _function(self, name: str, x: ir.Value, *numbers: float) -> ir.Value:
        arguments = [x, *(self._every(number) for number in numbers)]
        function = cgutils.get_or_insert_function(
            self.builder.module,
            ir.FunctionType(self.type, [self.type] * len(arguments)),
            f"{name}.v{self.lanes}{self.suffix}",
        )
        return self.builder.call(function, arguments)


def _vector_of(pointer: types.CPointer) -> Vector:
    return Vector(number_type(pointer))


@intrinsic
def load(typing_context: Any, pointer: Any, offset: Any) -> Any:
    """The vector that starts ``offset`` numbers after the pointer."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return Emitter(builder, pointer).load(*arguments)

    return _vector_of(pointer)(pointer, types.intp), emit


@intrinsic
def store(typing_context: Any, pointer: Any, offset: Any, vector: Any) -> Any:
    """Write a vector to where ``load`` would read it."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, offset, value = arguments
        Emitter(builder, pointer).store(value, target, offset)
        return context.get_dummy_value()

    return types.void(pointer, types.intp, _vector_of(pointer)), emit


@intrinsic
def load_first(typing_context: Any, pointer: Any, offset: Any, count: Any) -> Any:
    """As ``load``, but of ``count`` numbers, or all if there are more; zeros in the other lanes."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return Emitter(builder, pointer).load_first(*arguments)

    return _vector_of(pointer)(pointer, types.intp, types.intp), emit


@intrinsic
def store_first(typing_context: Any, pointer: Any, offset: Any, vector: Any, count: Any) -> Any:
    """As ``store``, but of ``count`` lanes, or all if there are fewer."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        target, offset, value, count = arguments
        Emitter(builder, pointer).store_first(value, target, offset, count)
        return context.get_dummy_value()

    return types.void(pointer, types.intp, _vector_of(pointer), types.intp), emit


@intrinsic
def exp(typing_context: Any, vector: Any) -> Any:
    """e to each lane."""
    pointer = types.CPointer(vector.dtype)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return Emitter(builder, pointer).exp(arguments[0])

    return vector(vector), emit


@intrinsic
def spread(typing_context: Any, pointer: Any, number: Any) -> Any:
    """One number in every lane of a vector of the pointer's type."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return Emitter(builder, pointer).spread(arguments[1])

    return _vector_of(pointer)(pointer, number_type(pointer)), emit


@intrinsic
def fma(typing_context: Any, a: Any, b: Any, c: Any) -> Any:
    """a b + c, lane by lane."""
    pointer = types.CPointer(a.dtype)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return Emitter(builder, pointer).fma(*arguments)

    return a(a, a, a), emit


@intrinsic
def total(typing_context: Any, vector: Any) -> Any:
    """The sum over the lanes."""
    pointer = types.CPointer(vector.dtype)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return Emitter(builder, pointer).total(arguments[0])

    return vector.dtype(vector), emit


@intrinsic
def largest(typing_context: Any, vector: Any) -> Any:
    """The largest of the lanes."""
    pointer = types.CPointer(vector.dtype)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return Emitter(builder, pointer).largest(arguments[0])

    return vector.dtype(vector), emit


@intrinsic
def maximum(typing_context: Any, a: Any, b: Any) -> Any:
    """The larger of the two, lane by lane."""
    pointer = types.CPointer(a.dtype)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return Emitter(builder, pointer).maximum(*arguments)

    return a(a, a), emit


@intrinsic
def below(typing_context: Any, vector: Any, limit: Any) -> Any:
    """The vector with zeros in the lanes from ``limit`` on."""
    pointer = types.CPointer(vector.dtype)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return Emitter(builder, pointer).below(*arguments)

    return vector(vector, types.intp), emit


def _arithmetic(method: str) -> Any:
    @intrinsic
    def apply(typing_context: Any, a: Any, b: Any) -> Any:
        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return getattr(builder, method)(*arguments)

        return a(a, a), emit

    return apply


multiply = _arithmetic("fmul")
add = _arithmetic("fadd")
subtract = _arithmetic("fsub")
divide = _arithmetic("fdiv")


@intrinsic
def lanes(typing_context: Any, pointer: Any) -> Any:
    """Numbers in one register, a constant to the compiler."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.get_constant(types.intp, lane_count(pointer))

    return types.intp(pointer), emit


@intrinsic
def zero(typing_context: Any, pointer: Any) -> Any:
    """Zero of the type that the pointer's numbers are computed in."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return ir.Constant(context.get_value_type(number_type(pointer)), 0.0)

    return number_type(pointer)(pointer), emit


@intrinsic
def read(typing_context: Any, pointer: Any, offset: Any) -> Any:
    """One number."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        value = builder.load(builder.gep(*[arguments[0], [arguments[1]]]))
        if pointer.dtype != types.uint16:
            return value
        i32 = ir.IntType(32)
        bits = builder.shl(builder.zext(value, i32), ir.Constant(i32, 16))
        return builder.bitcast(bits, ir.FloatType())

    return number_type(pointer)(pointer, types.intp), emit


@intrinsic
def pointer_like(typing_context: Any, pointer: Any, address: Any) -> Any:
    """The address as a pointer of the same type."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[1], context.get_value_type(pointer))

    return pointer(pointer, types.intp), emit


@intrinsic
def shift(typing_context: Any, pointer: Any, offset: Any) -> Any:
    """The pointer, ``offset`` numbers further."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.gep(arguments[0], [arguments[1]])

    return pointer(pointer, types.intp), emit


@intrinsic
def distance(typing_context: Any, start: Any, end: Any) -> Any:
    """Numbers between two pointers."""

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        first, last = (builder.ptrtoint(pointer, INDEX) for pointer in arguments)
        size = ir.Constant(INDEX, number_type(start).bitwidth // 8)
        return builder.sdiv(builder.sub(last, first), size)

    return types.intp(start, end), emit


def routine(kinds: str) -> Callable[[Callable[..., None]], Any]:
    """Make an emitting function callable from Numba, as one function that is never inlined.

    Inlined at each of its many calls it would cost tens of seconds of compilation.

    Args:
        kinds: a letter for each argument: "p" pointer to numbers, "i" integer, "n" number.

    The decorated function receives an ``Emitter`` and the argument values.
    """

    def decorate(build: Callable[..., None]) -> Any:
        def typed(pointer: types.CPointer) -> list[types.Type]:
            choices = {"p": pointer, "i": types.intp, "n": pointer.dtype}
            return [choices[kind] for kind in kinds]

        def call(context: Any, builder: Any, signature: Any, arguments: Sequence[Any]) -> Any:
            pointer = signature.args[kinds.index("p")]
            function = cgutils.get_or_insert_function(
                builder.module,
                ir.FunctionType(
                    ir.VoidType(), [context.get_value_type(kind) for kind in typed(pointer)]
                ),
                f"fourfold.{build.__name__}.{pointer.dtype}",
            )
            if not function.blocks:
                function.linkage = "internal"
                function.attributes.add("noinline")
                inner = ir.IRBuilder(function.append_basic_block())
                build(Emitter(inner, pointer), *function.args)
                inner.ret_void()
            builder.call(function, arguments)
            return context.get_dummy_value()

        def typing(typing_context: Any, *arguments: Any) -> Any:
            return types.void(*typed(arguments[kinds.index("p")])), call

        # An intrinsic's arity is read off its signature.
        names = ["typing_context", *(f"a{n}" for n in range(len(kinds)))]
        typing.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [inspect.Parameter(name, inspect.Parameter.POSITIONAL_OR_KEYWORD) for name in names]
        )
        typing.__name__ = build.__name__
        return intrinsic(typing)

    return decorate
