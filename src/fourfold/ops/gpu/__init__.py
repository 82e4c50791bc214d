"""The chunked delta rule as Triton kernels, forward and backward.

``fourfold.ops.gpu.launch`` holds the two calls, ``fourfold.ops.gpu.plan`` what can be known of them
without Triton. Nothing is imported here: Triton is needed, and loaded, only where kernels run.

Legend: B rows, T tokens, H heads, S address size, D entity columns, G column blocks that share a
strength, N sequences (B, or as many as are packed into one row), M chunks of C tokens.

With E the state before a chunk, γ_i the product of the retentions up to token i, R_ij = γ_i/γ_j,
L_ij = R_ij s_iᵀd_j for j < i and A_ij = R_ij q_iᵀd_j for j ≤ i, every column obeys

    P = diag(γ) S E + L U            what the decayed state predicts at the sources
    U = ω_w ∘ entities − ω_e ∘ P     the corrections
    Y = diag(γ) Q E + A U
    E' = γ_C E + Σ_j R_Cj d_j u_jᵀ

A panel of columns inside one block has one strength a token, so one triangular system serves the
whole block. With K = L (I + diag(ω_e) L)⁻¹ (``resolvent``) and the inverse X = I − diag(ω_e) K

    P  = K diag(ω_w) entities + (I − K diag(ω_e)) diag(γ) S E     from the state before the chunk
    dU = (A X)ᵀ dY + Xᵀ diag(R_C) D dE'                           from the gradient of that after it

``prepare`` makes the factors of these for every chunk at once, ``scan`` walks a panel of the state
from chunk to chunk with them, and ``output`` and ``gradients`` work on every chunk at once again.
Nothing is divided by a strength, so gradients are exact where one is 0.
"""
