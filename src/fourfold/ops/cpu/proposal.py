"""ATPM's transport proposal, a block of tokens at a time, as products in cache.

    Z = (K̂ A_Kᵀ) ∘ (V̂ A_Vᵀ)      P = Z Cᵀ / √R      b = p / √(1 + ‖p‖²)

K̂ and V̂ hold rows normalised to unit mean square. Each thread takes a range of tokens and all heads,
and sums the parameters' gradients for itself.
"""

from __future__ import annotations

import math
from collections import namedtuple

from fourfold.ops.cpu.kernel import (
    GAP,
    clear,
    dot,
    gather,
    multiply_rows,
    padded,
    scatter,
    take,
)
from fourfold.ops.cpu.norms import positions
from fourfold.ops.cpu.tiles import ROWS, add_product, set_product, transpose
from fourfold.ops.cpu.vectors import (
    device,
    distance,
    fma,
    lanes,
    load,
    multiply,
    pointer_like,
    shift,
    spread,
    store,
    zero,
)
from fourfold.ops.cpu.workers import stream

BLOCK = 64
"""Tokens at a time."""

Sizes = namedtuple("Sizes", "K V R S KL VL RL SL")
"""Dk, Dv, R and S, and the row lengths of scratch matrices with as many columns."""

Weights = namedtuple("Weights", "AK AKt AV AVt C Ct dAK dAV dC")
"""One head's parameters, transposed too, and the sums of their gradients."""

Block = namedtuple("Block", "K V ZK ZV Z P dP dZ dK dV k_scale v_scale p_scale ones")
"""A block of tokens: normalised views, their projections, the proposal, and gradients."""


@device
def sizes_of(K, V, R, S):
    return Sizes(K, V, R, S, padded(K) + GAP, padded(V) + GAP, padded(R) + GAP, padded(S) + GAP)


@device
def take_all(scratch, z):
    """A thread's scratch, and where it ends."""
    AK, scratch = take(scratch, padded(z.R) * z.KL)
    AKt, scratch = take(scratch, padded(z.K) * z.RL)
    AV, scratch = take(scratch, padded(z.R) * z.VL)
    AVt, scratch = take(scratch, padded(z.V) * z.RL)
    C, scratch = take(scratch, padded(z.S) * z.RL)
    Ct, scratch = take(scratch, padded(z.R) * z.SL)
    dAK, scratch = take(scratch, padded(z.R) * z.KL)
    dAV, scratch = take(scratch, padded(z.R) * z.VL)
    dC, scratch = take(scratch, padded(z.S) * z.RL)
    K, scratch = take(scratch, BLOCK * z.KL)
    V, scratch = take(scratch, BLOCK * z.VL)
    ZK, scratch = take(scratch, BLOCK * z.RL)
    ZV, scratch = take(scratch, BLOCK * z.RL)
    Z, scratch = take(scratch, BLOCK * z.RL)
    P, scratch = take(scratch, BLOCK * z.SL)
    dP, scratch = take(scratch, BLOCK * z.SL)
    dZ, scratch = take(scratch, BLOCK * z.RL)
    dK, scratch = take(scratch, BLOCK * z.KL)
    dV, scratch = take(scratch, BLOCK * z.VL)
    k_scale, scratch = take(scratch, BLOCK)
    v_scale, scratch = take(scratch, BLOCK)
    p_scale, scratch = take(scratch, BLOCK)
    ones, scratch = take(scratch, BLOCK)
    weights = Weights(AK, AKt, AV, AVt, C, Ct, dAK, dAV, dC)
    block = Block(K, V, ZK, ZV, Z, P, dP, dZ, dK, dV, k_scale, v_scale, p_scale, ones)
    return weights, block, scratch


def measure_worker(storage, number, arguments, worker):
    """(Dk, Dv, R, S, ·): put the scratch's size into the last one."""
    z = sizes_of(arguments[0], arguments[1], arguments[2], arguments[3])
    arguments[4] = distance(number, take_all(number, z)[-1])


@device
def open_head(a_k, a_v, c, weights, z):
    """Gather one head's A_K (R, Dk), A_V (R, Dv) and C (S, R), and clear their gradients."""
    gather(a_k, z.K, z.K, z.R, weights.AK, z.KL, padded(z.R), padded(z.K))
    gather(a_v, z.V, z.V, z.R, weights.AV, z.VL, padded(z.R), padded(z.V))
    gather(c, z.R, z.R, z.S, weights.C, z.RL, padded(z.S), padded(z.R))
    transpose(weights.AK, z.KL, weights.AKt, z.RL, padded(z.R), padded(z.K))
    transpose(weights.AV, z.VL, weights.AVt, z.RL, padded(z.R), padded(z.V))
    transpose(weights.C, z.RL, weights.Ct, z.SL, padded(z.S), padded(z.R))
    clear(weights.dAK, z.KL, 0, padded(z.R), padded(z.K))
    clear(weights.dAV, z.VL, 0, padded(z.R), padded(z.V))
    clear(weights.dC, z.RL, 0, padded(z.S), padded(z.R))


@device
def gather_tokens(source, first, n, T, width, target, row, rows):
    """Rows of ``n`` tokens from position ``first`` of all B · T on; source is one head's stream."""
    arguments, like, tensor, head = source
    for i in range(n):
        position = first + i
        token = stream(like, arguments, tensor, position // T, position % T, head).start
        gather(token, width, width, 1, shift(target, i * row), row, 1, padded(width))
    clear(target, row, n, rows, padded(width))


@device
def scatter_tokens(source, row, width, first, n, T, target):
    arguments, like, tensor, head = target
    for i in range(n):
        position = first + i
        token = stream(like, arguments, tensor, position // T, position % T, head).start
        scatter(shift(source, i * row), row, width, 1, token, width)


@device
def normalise(x, row, width, rows, eps, scales):
    """Rows of unit mean square; keep what each was multiplied with."""
    for i in range(rows):
        at = shift(x, i * row)
        scales[i] = 1 / math.sqrt(dot(at, at, padded(width)) / width + eps)
    multiply_rows(x, row, rows, padded(width), scales)


@device
def propose(k, v, first, n, T, eps, weights, block, z):
    """Fill the block up to b, which stands in P; p_scale keeps 1 / √(1 + ‖p‖²)."""
    m = (n + ROWS - 1) // ROWS * ROWS
    for i in range(m):
        block.ones[i] = 1
    gather_tokens(k, first, n, T, z.K, block.K, z.KL, m)
    gather_tokens(v, first, n, T, z.V, block.V, z.VL, m)
    normalise(block.K, z.KL, z.K, m, eps, block.k_scale)
    normalise(block.V, z.VL, z.V, m, eps, block.v_scale)
    R, S = padded(z.R), padded(z.S)
    set_product(block.K, z.KL, 1, weights.AKt, z.RL, block.ZK, z.RL, m, R, z.K, block.ones)
    set_product(block.V, z.VL, 1, weights.AVt, z.RL, block.ZV, z.RL, m, R, z.V, block.ones)
    root = 1 / math.sqrt(z.R)
    for i in range(m):
        multiply_into(block.Z, block.ZK, block.ZV, i * z.RL, R)
        block.p_scale[i] = root
    set_product(block.Z, z.RL, 1, weights.Ct, z.SL, block.P, z.SL, m, S, z.R, block.p_scale)
    for i in range(m):
        p = shift(block.P, i * z.SL)
        block.p_scale[i] = 1 / math.sqrt(1 + dot(p, p, S))
    multiply_rows(block.P, z.SL, m, S, block.p_scale)
    return m


@device
def multiply_into(target, a, b, at, size):
    for j in range(at, at + size, lanes(target)):
        store(target, j, multiply(load(a, j), load(b, j)))


@device
def take_radial_out(d, x, row, rows, columns, share):
    """d −= share (x · d) x, row by row."""
    for i in range(rows):
        at, other = shift(d, i * row), shift(x, i * row)
        factor = spread(d, -share * dot(at, other, columns))
        for j in range(0, columns, lanes(d)):
            store(at, j, fma(factor, load(other, j), load(at, j)))


Job = namedtuple("Job", "a_k a_v c weights block eps first last T H z")
"""A worker's parameters, scratch and positions, and the sizes; see ``job_of``."""


@device
def job_of(number, arguments, tensors, gradients, worker):
    """Read what follows the ``tensors``: a_k a_v c scratch settings, some gradients, numbers.

    settings (1,) hold epsilon; the numbers are workers, size of scratch, B, T, H, Dk, Dv, R and S.
    """
    rest = shift(arguments, 4 * tensors)
    numbers = shift(rest, 5 + gradients)
    z = sizes_of(numbers[5], numbers[6], numbers[7], numbers[8])
    scratch = shift(pointer_like(number, rest[3]), worker * numbers[1])
    weights, block, _ = take_all(scratch, z)
    first, last = positions(numbers[2] * numbers[3], numbers[0], worker)
    return Job(
        pointer_like(number, rest[0]),
        pointer_like(number, rest[1]),
        pointer_like(number, rest[2]),
        weights,
        block,
        pointer_like(number, rest[4])[0],
        first,
        last,
        numbers[3],
        numbers[4],
        z,
    )


def proposal_worker(storage, number, arguments, worker):
    """k v b, and what ``job_of`` reads."""
    job = job_of(number, arguments, 3, 0, worker)
    weights, block, z, T = job.weights, job.block, job.z, job.T
    for h in range(job.H):
        open_head(
            shift(job.a_k, h * z.R * z.K), shift(job.a_v, h * z.R * z.V),
            shift(job.c, h * z.S * z.R), weights, z,
        )  # fmt: skip
        k, v = (arguments, number, 0, h), (arguments, number, 1, h)
        for first in range(job.first, job.last, BLOCK):
            n = min(BLOCK, job.last - first)
            propose(k, v, first, n, T, job.eps, weights, block, z)
            scatter_tokens(block.P, z.SL, z.S, first, n, T, (arguments, number, 2, h))


def proposal_backward_worker(storage, number, arguments, worker):
    """k v db dk dv, and what ``job_of`` reads; gradients (workers, H, ·, ·) da_k da_v dc."""
    job = job_of(number, arguments, 5, 3, worker)
    weights, block, z, T = job.weights, job.block, job.z, job.T
    given = shift(arguments, 4 * 5 + 5)
    da_k, da_v, dc = (
        pointer_like(number, given[0]), pointer_like(number, given[1]),
        pointer_like(number, given[2]),
    )  # fmt: skip
    K, V, R, S = padded(z.K), padded(z.V), padded(z.R), padded(z.S)
    one = zero(number) + 1
    for h in range(job.H):
        open_head(
            shift(job.a_k, h * z.R * z.K), shift(job.a_v, h * z.R * z.V),
            shift(job.c, h * z.S * z.R), weights, z,
        )  # fmt: skip
        k, v = (arguments, number, 0, h), (arguments, number, 1, h)
        for first in range(job.first, job.last, BLOCK):
            n = min(BLOCK, job.last - first)
            m = propose(k, v, first, n, T, job.eps, weights, block, z)
            gather_tokens((arguments, number, 2, h), first, n, T, z.S, block.dP, z.SL, m)
            # b = p m with m = 1 / √(1 + ‖p‖²), so dp = m (db − b (b · db)).
            take_radial_out(block.dP, block.P, z.SL, m, S, one)
            for i in range(m):
                block.p_scale[i] /= math.sqrt(z.R)
            multiply_rows(block.dP, z.SL, m, S, block.p_scale)
            add_product(block.dP, 1, z.SL, block.Z, z.RL, weights.dC, z.RL, S, R, m, 1)
            set_product(block.dP, z.SL, 1, weights.C, z.RL, block.dZ, z.RL, m, R, z.S, block.ones)
            for i in range(m):
                multiply_into(block.ZK, block.dZ, block.ZK, i * z.RL, R)
                multiply_into(block.ZV, block.dZ, block.ZV, i * z.RL, R)
            # ZV now holds the gradient of K̂ A_Kᵀ, ZK that of V̂ A_Vᵀ.
            backward_view(
                block.ZV, block.K, block.k_scale, weights.AK, weights.dAK, block.dK,
                m, z.R, R, z.RL, z.K, K, z.KL, block.ones,
            )  # fmt: skip
            backward_view(
                block.ZK, block.V, block.v_scale, weights.AV, weights.dAV, block.dV,
                m, z.R, R, z.RL, z.V, V, z.VL, block.ones,
            )  # fmt: skip
            scatter_tokens(block.dK, z.KL, z.K, first, n, T, (arguments, number, 3, h))
            scatter_tokens(block.dV, z.VL, z.V, first, n, T, (arguments, number, 4, h))
        own = worker * job.H + h
        scatter(weights.dAK, z.KL, z.K, z.R, shift(da_k, own * z.R * z.K), z.K)
        scatter(weights.dAV, z.VL, z.V, z.R, shift(da_v, own * z.R * z.V), z.V)
        scatter(weights.dC, z.RL, z.R, z.S, shift(dc, own * z.S * z.R), z.R)


@device
def backward_view(dz, x, scales, a, da, dx, rows, rank, R, RL, width, columns, row, ones):
    """Through x̂ Aᵀ and the normalisation: dA += dzᵀ x̂, dx = scale (dx̂ − x̂ mean(x̂ dx̂))."""
    add_product(dz, 1, RL, x, row, da, row, R, columns, rows, 1)
    set_product(dz, RL, 1, a, row, dx, row, rows, columns, rank, ones)
    take_radial_out(dx, x, row, rows, columns, 1 / width)
    multiply_rows(dx, row, rows, columns, scales)
