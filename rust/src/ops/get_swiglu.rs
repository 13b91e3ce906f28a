// SPDX-License-Identifier: MIT
//! silu(a) * b, silu rounded to the element type before the product, and the gradients of both: gate is a, other is b.

#[cutile::module]
pub mod get_swiglu {
    use crate::device::gated::gated::*;
    use cutile::core::*;

    /// out = silu(gate) * other.
    /// Tiles of ROWS x COLS, placed as `place` says (WHOLE: whole rows); EXACT: none overhangs. `cols` and the distances
    /// of rows are multiples of ALIGN elements.
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn swiglu_forward<
        E: ElementType,
        const ROWS: i32,
        const COLS: i32,
        const ALIGN: i32,
        const WHOLE: bool,
        const EXACT: bool,
    >(
        out: *mut E,
        gate: *mut E,
        other: *mut E,
        rows: i32,
        cols: i32,
        out_row: i32,
        gate_row: i32,
        other_row: i32,
    ) {
        let tile: Shape<{ [ROWS, COLS] }> = shape![ROWS, COLS];
        let cols: i32 = unsafe { assume_div_by::<_, ALIGN>(cols) };
        let out_row: i32 = unsafe { assume_div_by::<_, ALIGN>(out_row) };
        let gate_row: i32 = unsafe { assume_div_by::<_, ALIGN>(gate_row) };
        let other_row: i32 = unsafe { assume_div_by::<_, ALIGN>(other_row) };
        gated_forward(1i32, out, gate, other, rows, cols, out_row, gate_row, other_row, WHOLE, EXACT, tile);
    }

    /// to_gate = grad * other * silu'(gate), to_other = grad * silu(gate); the rest is as in `swiglu_forward`.
    #[tile::entry(unchecked_accesses = true)]
    pub unsafe fn swiglu_backward<
        E: ElementType,
        const ROWS: i32,
        const COLS: i32,
        const ALIGN: i32,
        const WHOLE: bool,
        const EXACT: bool,
    >(
        to_gate: *mut E,
        to_other: *mut E,
        grad: *mut E,
        gate: *mut E,
        other: *mut E,
        rows: i32,
        cols: i32,
        to_row: i32,
        grad_row: i32,
        gate_row: i32,
        other_row: i32,
    ) {
        let tile: Shape<{ [ROWS, COLS] }> = shape![ROWS, COLS];
        let cols: i32 = unsafe { assume_div_by::<_, ALIGN>(cols) };
        let to_row: i32 = unsafe { assume_div_by::<_, ALIGN>(to_row) };
        let grad_row: i32 = unsafe { assume_div_by::<_, ALIGN>(grad_row) };
        let gate_row: i32 = unsafe { assume_div_by::<_, ALIGN>(gate_row) };
        let other_row: i32 = unsafe { assume_div_by::<_, ALIGN>(other_row) };
        gated_backward(
            1i32, to_gate, to_other, grad, gate, other, rows, cols, to_row, grad_row, gate_row, other_row, WHOLE,
            EXACT, tile,
        );
    }
}
