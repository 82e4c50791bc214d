"""The chunked delta rule for one head of one sequence, forward and backward, in cache.

Legend: C tokens a chunk, S address, D entity columns, G column blocks that share a strength.

The algebra is that of ``fourfold.ops.chunked``, but the chunks are walked in order, the state
stays in cache between them, and the triangular system is solved by substitution, token by token.
So each column may have strengths of its own at no cost, and nothing is divided by a strength:

    P = diag(γ) S E + L U            what the decayed state predicts at the sources
    U = ω_w ∘ E_entities − ω_e ∘ P   the corrections
    Y = diag(γ) Q E + A U
    E' = γ_C E + D̃ᵀ U                d̃_j = (γ_C/γ_j) d_j

with L_ij = (γ_i/γ_j) s_iᵀd_j for j < i and A_ij = (γ_i/γ_j) q_iᵀd_j for j ≤ i. For the backward
pass the forward pass keeps P, from which U follows, and the transposed state before each chunk.
"""

from __future__ import annotations

from collections import namedtuple

from fourfold.ops.cpu.tiles import (
    PAD,
    ROWS,
    add_lower_times,
    add_product,
    add_upper_times,
    set_lower_product,
    set_product,
    solve_rows,
    solve_rows_backward,
    transpose,
)
from fourfold.ops.cpu.vectors import (
    add,
    below,
    device,
    exp,
    fma,
    lanes,
    load,
    load_first,
    multiply,
    shift,
    spread,
    store,
    store_first,
    subtract,
    total,
    zero,
)

GAP = PAD
"""Extra columns in a scratch row: rows a power of two apart would evict each other from cache."""

Stream = namedtuple("Stream", "start token")
"""One head of a (B, T, H, ·) tensor: pointer to its first token, distance between tokens."""

Inputs = namedtuple("Inputs", "q s d e log_alpha erase write")
"""The streams of one head, or of the gradients of one head."""

Sizes = namedtuple("Sizes", "C S D SP DP SL DL CL")
"""C, S, D; S and D padded; row lengths of scratch matrices with S, D and C columns."""

Chunk = namedtuple("Chunk", "Q Sm Dm Dt ent erase write P U Y L A pairwise gamma ones")
"""What both passes hold of a chunk, named as in the equations; Dt is Dᵀ, ``pairwise`` γ_i/γ_j."""


@device
def padded(size):
    return (size + PAD - 1) // PAD * PAD


@device
def sizes_of(C, S, D):
    SP, DP = padded(S), padded(D)
    return Sizes(C, S, D, SP, DP, SP + GAP, DP + GAP, C + GAP)


@device
def take(scratch, size):
    """The start of a scratch area and what is left behind ``size`` numbers."""
    return scratch, shift(scratch, size)


@device
def take_chunk(scratch, z):
    address, entity, square = z.C * z.SL, z.C * z.DL, z.C * z.CL
    Q, scratch = take(scratch, address)
    Sm, scratch = take(scratch, address)
    Dm, scratch = take(scratch, address)
    Dt, scratch = take(scratch, z.SP * z.CL)
    ent, scratch = take(scratch, entity)
    erase, scratch = take(scratch, entity)
    write, scratch = take(scratch, entity)
    P, scratch = take(scratch, entity)
    U, scratch = take(scratch, entity)
    Y, scratch = take(scratch, entity)
    L, scratch = take(scratch, square)
    A, scratch = take(scratch, square)
    pairwise, scratch = take(scratch, square)
    gamma, scratch = take(scratch, z.C)
    ones, scratch = take(scratch, z.C)
    chunk = Chunk(Q, Sm, Dm, Dt, ent, erase, write, P, U, Y, L, A, pairwise, gamma, ones)
    return chunk, scratch


@device
def clear(target, row, first, last, columns):
    """Zeros in whole vectors of the rows from ``first`` to ``last``."""
    nothing = spread(target, zero(target))
    for i in range(first, last):
        for j in range(0, columns, lanes(target)):
            store(target, i * row + j, nothing)


@device
def gather(source, token, width, tokens, target, row, rows, columns):
    """Copy ``tokens`` rows of ``width`` numbers into a padded matrix, with zeros around them."""
    for i in range(tokens):
        for j in range(0, columns, lanes(target)):
            store(target, i * row + j, load_first(source, i * token + j, width - j))
    clear(target, row, tokens, rows, columns)


@device
def scatter(source, row, width, tokens, target, token):
    """Copy rows out of a padded matrix."""
    for i in range(tokens):
        for j in range(0, width, lanes(source)):
            store_first(target, i * token + j, load(source, i * row + j), width - j)


@device
def spread_strengths(stream, edges, blocks, first, tokens, target, row, rows, columns):
    """One strength for each block of columns -> one for each column."""
    for i in range(tokens):
        at = (first + i) * stream.token
        # Whole vectors run over a block's end; the next block, or the gap, takes that up.
        for block in range(blocks):
            strength = spread(target, stream.start[at + block])
            for j in range(edges[block], edges[block + 1], lanes(target)):
                store(target, i * row + j, strength)
        clear(shift(target, edges[blocks]), row, i, i + 1, columns - edges[blocks])
    clear(target, row, tokens, rows, columns)


@device
def decays(log_alpha, first, tokens, rows, gamma, pairwise, row):
    """γ_i, and γ_i/γ_j for j ≤ i as products of the retentions between, not as a quotient."""
    for i in range(rows):
        gamma[i] = log_alpha.start[(first + i) * log_alpha.token] if i < tokens else 0
    clear(pairwise, row, 0, 1, row - GAP)
    product = zero(gamma) + 1
    for i in range(0, rows, lanes(gamma)):
        # Rows past the last are padding, of whole vectors too.
        store(gamma, i, exp(load(gamma, i)))
    for i in range(rows):
        alpha = gamma[i]
        product *= alpha
        gamma[i] = product
        factor = spread(gamma, alpha)
        for j in range(0, row - GAP if i else 0, lanes(gamma)):
            store(pairwise, i * row + j, multiply(factor, load(pairwise, (i - 1) * row + j)))
        pairwise[i * row + i] = 1


@device
def multiply_lower(matrix, factor, row, rows):
    """matrix *= factor, on and left of the tiles on the diagonal."""
    for i in range(rows):
        for j in range(0, (i // ROWS + 1) * ROWS, lanes(matrix)):
            at = i * row + j
            store(matrix, at, multiply(load(matrix, at), load(factor, at)))


@device
def clear_diagonal(matrix, row, rows):
    for i in range(rows):
        matrix[i * row + i] = 0


@device
def multiply_rows(matrix, row, rows, columns, factors):
    """Row i times ``factors[i]``."""
    for i in range(rows):
        factor = spread(matrix, factors[i])
        for j in range(0, columns, lanes(matrix)):
            at = i * row + j
            store(matrix, at, multiply(factor, load(matrix, at)))


@device
def dot(a, b, size):
    """Σ a b over whole vectors."""
    products = spread(a, zero(a))
    for j in range(0, size, lanes(a)):
        products = fma(load(a, j), load(b, j), products)
    return total(products)


@device
def open_chunk(x, edges, blocks, first, n, m, chunk, z):
    """Gather a chunk's n tokens, padded to m rows, and make γ, L and A of it."""
    for i in range(m):
        chunk.ones[i] = 1
    gather(shift(x.q.start, first * x.q.token), x.q.token, z.S, n, chunk.Q, z.SL, m, z.SP)
    gather(shift(x.s.start, first * x.s.token), x.s.token, z.S, n, chunk.Sm, z.SL, m, z.SP)
    gather(shift(x.d.start, first * x.d.token), x.d.token, z.S, n, chunk.Dm, z.SL, padded(m), z.SP)
    gather(shift(x.e.start, first * x.e.token), x.e.token, z.D, n, chunk.ent, z.DL, m, z.DP)
    spread_strengths(x.erase, edges, blocks, first, n, chunk.erase, z.DL, m, z.DP)
    spread_strengths(x.write, edges, blocks, first, n, chunk.write, z.DL, m, z.DP)
    decays(x.log_alpha, first, n, m, chunk.gamma, chunk.pairwise, z.CL)
    transpose(chunk.Dm, z.SL, chunk.Dt, z.CL, padded(m), z.SP)
    set_lower_product(chunk.Sm, z.SL, chunk.Dt, z.CL, chunk.L, z.CL, m, z.S, chunk.ones)
    set_lower_product(chunk.Q, z.SL, chunk.Dt, z.CL, chunk.A, z.CL, m, z.S, chunk.ones)
    multiply_lower(chunk.L, chunk.pairwise, z.CL, m)
    multiply_lower(chunk.A, chunk.pairwise, z.CL, m)
    clear_diagonal(chunk.L, z.CL, m)


@device
def take_forward(scratch, z):
    """The forward pass's scratch: E, Eᵀ, the chunk, and where it ends."""
    E, scratch = take(scratch, z.SP * z.DL)
    Et, scratch = take(scratch, z.DP * z.SL)
    chunk, scratch = take_chunk(scratch, z)
    return E, Et, chunk, scratch


@device
def forward_head(
    x, edges, blocks, state, has_state, y, predicted, states, keep, tokens, z, scratch
):
    """Walk one head through its tokens.

    Args:
        x: Inputs.
        state: pointer to (S, D), contiguous: initial state if ``has_state``, then the final one.
        y, predicted: Streams to write; ``predicted`` and ``states`` only if ``keep``.
        states: pointer to one (D, S) matrix a chunk.
        scratch: an area as long as ``take_forward`` takes.
    """
    E, Et, chunk, _ = take_forward(scratch, z)
    Q, Sm, Dm, P, U, Y, L, A = (
        chunk.Q, chunk.Sm, chunk.Dm, chunk.P, chunk.U, chunk.Y, chunk.L, chunk.A
    )  # fmt: skip
    if has_state:
        gather(state, z.D, z.D, z.S, E, z.DL, z.SP, z.DP)
    else:
        clear(E, z.DL, 0, z.SP, z.DP)
    for first in range(0, tokens, z.C):
        n = min(z.C, tokens - first)
        m = (n + ROWS - 1) // ROWS * ROWS
        open_chunk(x, edges, blocks, first, n, m, chunk, z)
        if keep and (first or has_state):
            transpose(E, z.DL, Et, z.SL, z.SP, z.DP)
            scatter(Et, z.SL, z.S, z.D, shift(states, first // z.C * z.S * z.D), z.S)
        if first or has_state:
            set_product(Sm, z.SL, 1, E, z.DL, P, z.DL, m, z.DP, z.S, chunk.gamma)
            set_product(Q, z.SL, 1, E, z.DL, Y, z.DL, m, z.DP, z.S, chunk.gamma)
        else:
            clear(P, z.DL, 0, m, z.DP)
            clear(Y, z.DL, 0, m, z.DP)
        for i in range(0, m, ROWS):
            at = i * z.DL
            if i:
                add_product(
                    shift(L, i * z.CL), z.CL, 1, U, z.DL, shift(P, at), z.DL, ROWS, z.DP, i, 1
                )
            solve_rows(
                shift(L, i * z.CL + i), z.CL, z.DL, shift(chunk.ent, at), shift(chunk.erase, at),
                shift(chunk.write, at), shift(P, at), shift(U, at), z.DP,
            )  # fmt: skip
        add_lower_times(A, z.CL, U, z.DL, Y, z.DL, m, z.DP)
        multiply_rows(Dm, z.SL, m, z.SP, shift(chunk.pairwise, (m - 1) * z.CL))
        add_product(Dm, 1, z.SL, U, z.DL, E, z.DL, z.SP, z.DP, m, chunk.gamma[m - 1])
        scatter(Y, z.DL, z.D, n, shift(y.start, first * y.token), y.token)
        if keep:
            scatter(P, z.DL, z.D, n, shift(predicted.start, first * y.token), y.token)
    scatter(E, z.DL, z.D, z.S, state, z.D)


Backward = namedtuple("Backward", "dE dEt Et dQ dS dD Ut dY dU dP dL dA tail rising falling column")
"""What the backward pass holds beside the chunk."""


@device
def take_backward(scratch, z):
    """The backward pass's scratch: the chunk, its gradients, and where it ends."""
    address, entity, square = z.C * z.SL, z.C * z.DL, z.C * z.CL
    chunk, scratch = take_chunk(scratch, z)
    dE, scratch = take(scratch, z.SP * z.DL)
    dEt, scratch = take(scratch, z.DP * z.SL)
    Et, scratch = take(scratch, z.DP * z.SL)
    dQ, scratch = take(scratch, address)
    dS, scratch = take(scratch, address)
    dD, scratch = take(scratch, address)
    Ut, scratch = take(scratch, z.DP * z.CL)
    dY, scratch = take(scratch, entity)
    dU, scratch = take(scratch, entity)
    dP, scratch = take(scratch, entity)
    dL, scratch = take(scratch, square)
    dA, scratch = take(scratch, square)
    tail, scratch = take(scratch, z.C)
    rising, scratch = take(scratch, z.C)
    falling, scratch = take(scratch, z.C)
    column, scratch = take(scratch, z.CL)
    own = Backward(
        dE, dEt, Et, dQ, dS, dD, Ut, dY, dU, dP, dL, dA, tail, rising, falling, column
    )  # fmt: skip
    return chunk, own, scratch


@device
def corrections(chunk, m, z):
    """U from the kept P, with zeros in the rows that only pad."""
    for i in range(m):
        for j in range(i * z.DL, i * z.DL + z.DP, lanes(chunk.P)):
            erased = multiply(load(chunk.erase, j), load(chunk.P, j))
            written = multiply(load(chunk.write, j), load(chunk.ent, j))
            store(chunk.U, j, subtract(written, erased))
    clear(chunk.U, z.DL, m, padded(m), z.DP)


@device
def retention_gradient(dlog_alpha, first, n, m, through, chunk, own, z):
    """Every path from before token t to it or past it, summed without a difference of sums."""
    column = own.column
    clear(column, z.CL, 0, 1, z.C)
    after = zero(column)
    for t in range(m - 1, -1, -1):
        after += own.rising[t]
        for j in range(0, t + 1, lanes(column)):
            at = t * z.CL + j
            pairs = fma(load(own.dA, at), load(chunk.A, at), load(column, j))
            store(column, j, fma(load(own.dL, at), load(chunk.L, at), pairs))
        inside = spread(column, zero(column))
        for j in range(0, t, lanes(column)):
            inside = add(inside, below(load(column, j), t - j))
        own.rising[t] = after + total(inside)
    before = through
    for t in range(n):
        dlog_alpha.start[(first + t) * dlog_alpha.token] = own.rising[t] + before
        before += own.falling[t]


@device
def strength_gradients(derase, dwrite, edges, blocks, first, n, chunk, own, z):
    """dω_e = −Σ dU ∘ P and dω_w = Σ dU ∘ E_entities over each block's columns."""
    width = lanes(own.dU)
    for i in range(n):
        row, at = i * z.DL, (first + i) * derase.token
        for block in range(blocks):
            start, stop = edges[block], edges[block + 1]
            erased, written = spread(own.dU, zero(own.dU)), spread(own.dU, zero(own.dU))
            for j in range(start, stop, width):
                du = below(load(own.dU, row + j), stop - j)
                # The lanes past the block may hold anything.
                erased = fma(du, below(load(chunk.P, row + j), stop - j), erased)
                written = fma(du, below(load(chunk.ent, row + j), stop - j), written)
            derase.start[at + block] = -total(erased)
            dwrite.start[at + block] = total(written)


@device
def backward_head(
    x, edges, blocks, has_state, dstate, has_dstate, dy, predicted, states, g, tokens, z, scratch
):
    """Walk one head back from its last token.

    Args:
        x: Inputs.
        has_state: whether the forward pass began with a state.
        dstate: pointer to (S, D), contiguous: the final state's gradient if ``has_dstate``, then
            the initial state's.
        dy, predicted: Streams.
        states: pointer to one (D, S) matrix a chunk.
        g: Inputs to write the gradients to.
        scratch: an area as long as ``take_backward`` takes.
    """
    chunk, own, _ = take_backward(scratch, z)
    Q, Sm, Dm, P, U, L, A = chunk.Q, chunk.Sm, chunk.Dm, chunk.P, chunk.U, chunk.L, chunk.A
    dE, dEt, Et, dQ, dS, dD = own.dE, own.dEt, own.Et, own.dQ, own.dS, own.dD
    dY, dU, dP, dL, dA, Ut = own.dY, own.dU, own.dP, own.dL, own.dA, own.Ut
    gamma, ones, pairwise = chunk.gamma, chunk.ones, chunk.pairwise
    if has_dstate:
        gather(dstate, z.D, z.D, z.S, dE, z.DL, z.SP, z.DP)
    else:
        clear(dE, z.DL, 0, z.SP, z.DP)
    last = (tokens + z.C - 1) // z.C - 1
    for number in range(last, -1, -1):
        first = number * z.C
        n = min(z.C, tokens - first)
        m = (n + ROWS - 1) // ROWS * ROWS
        comes_in = has_state or number > 0
        goes_out = has_dstate or number < last
        open_chunk(x, edges, blocks, first, n, m, chunk, z)
        gather(shift(dy.start, first * dy.token), dy.token, z.D, n, dY, z.DL, m, z.DP)
        gather(
            shift(predicted.start, first * predicted.token), predicted.token, z.D, n,
            P, z.DL, m, z.DP,
        )  # fmt: skip
        corrections(chunk, m, z)
        transpose(U, z.DL, Ut, z.CL, padded(m), z.DP)
        tail = shift(pairwise, (m - 1) * z.CL)

        if goes_out:
            transpose(dE, z.DL, dEt, z.SL, z.SP, z.DP)
            set_product(Dm, z.SL, 1, dE, z.DL, dU, z.DL, m, z.DP, z.S, tail)
            set_product(U, z.DL, 1, dEt, z.SL, dD, z.SL, m, z.SP, z.D, tail)
        else:
            clear(dU, z.DL, 0, m, z.DP)
            clear(dD, z.SL, 0, m, z.SP)
        add_upper_times(A, z.CL, dY, z.DL, dU, z.DL, m, z.DP)
        for i in range(m - ROWS, -1, -ROWS):
            below_i, at = i + ROWS, i * z.DL
            if below_i < m:
                add_product(
                    shift(L, below_i * z.CL + i), 1, z.CL, shift(dP, below_i * z.DL), z.DL,
                    shift(dU, at), z.DL, ROWS, z.DP, m - below_i, 1,
                )  # fmt: skip
            solve_rows_backward(
                shift(L, i * z.CL + i), z.CL, z.DL, shift(chunk.erase, at),
                shift(dU, at), shift(dP, at), z.DP,
            )  # fmt: skip
        set_lower_product(dY, z.DL, Ut, z.CL, dA, z.CL, m, z.D, ones)
        set_lower_product(dP, z.DL, Ut, z.CL, dL, z.CL, m, z.D, ones)

        through = zero(gamma)
        if comes_in:
            gather(shift(states, number * z.S * z.D), z.S, z.S, z.D, Et, z.SL, z.DP, z.SP)
            set_product(dY, z.DL, 1, Et, z.SL, dQ, z.SL, m, z.SP, z.D, gamma)
            set_product(dP, z.DL, 1, Et, z.SL, dS, z.SL, m, z.SP, z.D, gamma)
            if goes_out:
                for j in range(z.D):
                    through += dot(shift(dEt, j * z.SL), shift(Et, j * z.SL), z.SP)
                through *= gamma[m - 1]
        else:
            clear(dQ, z.SL, 0, m, z.SP)
            clear(dS, z.SL, 0, m, z.SP)
        for i in range(m):
            at = i * z.SL
            own.rising[i] = dot(shift(Q, at), shift(dQ, at), z.SP)
            own.rising[i] += dot(shift(Sm, at), shift(dS, at), z.SP)
            own.falling[i] = dot(shift(Dm, at), shift(dD, at), z.SP)
        retention_gradient(g.log_alpha, first, n, m, through, chunk, own, z)

        multiply_lower(dA, pairwise, z.CL, m)
        multiply_lower(dL, pairwise, z.CL, m)
        clear_diagonal(dL, z.CL, m)
        add_lower_times(dA, z.CL, Dm, z.SL, dQ, z.SL, m, z.SP)
        add_lower_times(dL, z.CL, Dm, z.SL, dS, z.SL, m, z.SP)
        add_upper_times(dA, z.CL, Q, z.SL, dD, z.SL, m, z.SP)
        add_upper_times(dL, z.CL, Sm, z.SL, dD, z.SL, m, z.SP)
        scatter(dQ, z.SL, z.S, n, shift(g.q.start, first * g.q.token), g.q.token)
        scatter(dS, z.SL, z.S, n, shift(g.s.start, first * g.s.token), g.s.token)
        scatter(dD, z.SL, z.S, n, shift(g.d.start, first * g.d.token), g.d.token)
        strength_gradients(g.erase, g.write, edges, blocks, first, n, chunk, own, z)

        if number > 0 or has_state:
            multiply_rows(Q, z.SL, m, z.SP, gamma)
            multiply_rows(Sm, z.SL, m, z.SP, gamma)
            add_product(Q, 1, z.SL, dY, z.DL, dE, z.DL, z.SP, z.DP, m, gamma[m - 1])
            add_product(Sm, 1, z.SL, dP, z.DL, dE, z.DL, z.SP, z.DP, m, 1)
        for i in range(m):
            for j in range(i * z.DL, i * z.DL + z.DP, lanes(dU)):
                store(dU, j, multiply(load(dU, j), load(chunk.write, j)))
        scatter(dU, z.DL, z.D, n, shift(g.e.start, first * g.e.token), g.e.token)
    scatter(dE, z.DL, z.D, z.S, dstate, z.D)
