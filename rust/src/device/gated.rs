// SPDX-License-Identifier: MIT
//! activation(gate) * other and its gradients, for matrices whose rows are contiguous and lie at any distance: two
//! tensors, or the halves of one. The entries in `ops` choose the activation.

#[cutile::module]
pub mod gated {
    use crate::device::activations::activations::*;
    use crate::device::elementwise::elementwise::*;
    use crate::device::memory::memory::*;
    use cutile::core::*;

    /// An activation and its derivative: 0 silu, 1 silu rounded to the element type, 2 gelu, 3 gelu by tanh.
    fn activated<E: ElementType, const ROWS: i32, const COLS: i32>(
        activation: i32,
        gate: Tile<E, { [ROWS, COLS] }>,
    ) -> (Tile<f32, { [ROWS, COLS] }>, Tile<f32, { [ROWS, COLS] }>) {
        let x: Tile<f32, { [ROWS, COLS] }> = convert_tile(gate);
        if activation >= 2i32 {
            gelu_of(x, activation == 3i32)
        } else {
            let found: (Tile<f32, { [ROWS, COLS] }>, Tile<f32, { [ROWS, COLS] }>) = silu(x);
            let value: Tile<f32, { [ROWS, COLS] }> = if activation == 1i32 {
                let rounded: Tile<E, { [ROWS, COLS] }> = convert_tile(found.0);
                let rounded: Tile<f32, { [ROWS, COLS] }> = convert_tile(rounded);
                rounded
            } else {
                found.0
            };
            (value, found.1)
        }
    }

    fn product<E: ElementType, const ROWS: i32, const COLS: i32>(
        activation: i32,
        gate: Tile<E, { [ROWS, COLS] }>,
        other: Tile<E, { [ROWS, COLS] }>,
    ) -> Tile<E, { [ROWS, COLS] }> {
        let found: (Tile<f32, { [ROWS, COLS] }>, Tile<f32, { [ROWS, COLS] }>) = activated(activation, gate);
        let other: Tile<f32, { [ROWS, COLS] }> = convert_tile(other);
        convert_tile(found.0 * other)
    }

    /// Gradients of gate and other, from the result's.
    fn gradients<E: ElementType, const ROWS: i32, const COLS: i32>(
        activation: i32,
        grad: Tile<E, { [ROWS, COLS] }>,
        gate: Tile<E, { [ROWS, COLS] }>,
        other: Tile<E, { [ROWS, COLS] }>,
    ) -> (Tile<E, { [ROWS, COLS] }>, Tile<E, { [ROWS, COLS] }>) {
        let found: (Tile<f32, { [ROWS, COLS] }>, Tile<f32, { [ROWS, COLS] }>) = activated(activation, gate);
        let grad: Tile<f32, { [ROWS, COLS] }> = convert_tile(grad);
        let other: Tile<f32, { [ROWS, COLS] }> = convert_tile(other);
        let to_gate: Tile<E, { [ROWS, COLS] }> = convert_tile(grad * other * found.1);
        let to_other: Tile<E, { [ROWS, COLS] }> = convert_tile(grad * found.0);
        (to_gate, to_other)
    }

    /// One tile of out = activation(gate) * other; all are (rows, cols), `*_row` elements from row to row.
    /// Where `exact`, nothing overhangs; `whole_rows` is `place`'s.
    pub fn gated_forward<E: ElementType, const ROWS: i32, const COLS: i32>(
        activation: i32,
        out: *mut E,
        gate: *mut E,
        other: *mut E,
        rows: i32,
        cols: i32,
        out_row: i32,
        gate_row: i32,
        other_row: i32,
        whole_rows: bool,
        exact: bool,
        tile: Shape<{ [ROWS, COLS] }>,
    ) {
        let at: (i32, i32) = place(whole_rows, ROWS, COLS);
        let rows_left: i32 = rows - at.0;
        let cols_left: i32 = cols - at.1;
        let from_gate: PointerTile<*mut E, { [ROWS, COLS] }> = tile_of(gate, at.0, at.1, gate_row, tile);
        let from_other: PointerTile<*mut E, { [ROWS, COLS] }> = tile_of(other, at.0, at.1, other_row, tile);
        let to: PointerTile<*mut E, { [ROWS, COLS] }> = tile_of(out, at.0, at.1, out_row, tile);
        if exact || (rows_left >= ROWS && cols_left >= COLS) {
            let g: Tile<E, { [ROWS, COLS] }> = load(from_gate);
            let o: Tile<E, { [ROWS, COLS] }> = load(from_other);
            let y: Tile<E, { [ROWS, COLS] }> = product(activation, g, o);
            store(to, y);
        } else {
            let mask: Tile<bool, { [ROWS, COLS] }> = inside::<ROWS, COLS>(rows_left, cols_left);
            let g: Tile<E, { [ROWS, COLS] }> = load_where(from_gate, mask);
            let o: Tile<E, { [ROWS, COLS] }> = load_where(from_other, mask);
            let y: Tile<E, { [ROWS, COLS] }> = product(activation, g, o);
            store_where(to, y, mask);
        }
    }

    /// One tile of the gradients of gate and other; see `gated_forward`.
    pub fn gated_backward<E: ElementType, const ROWS: i32, const COLS: i32>(
        activation: i32,
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
        whole_rows: bool,
        exact: bool,
        tile: Shape<{ [ROWS, COLS] }>,
    ) {
        let at: (i32, i32) = place(whole_rows, ROWS, COLS);
        let rows_left: i32 = rows - at.0;
        let cols_left: i32 = cols - at.1;
        let from_grad: PointerTile<*mut E, { [ROWS, COLS] }> = tile_of(grad, at.0, at.1, grad_row, tile);
        let from_gate: PointerTile<*mut E, { [ROWS, COLS] }> = tile_of(gate, at.0, at.1, gate_row, tile);
        let from_other: PointerTile<*mut E, { [ROWS, COLS] }> = tile_of(other, at.0, at.1, other_row, tile);
        let at_gate: PointerTile<*mut E, { [ROWS, COLS] }> = tile_of(to_gate, at.0, at.1, to_row, tile);
        let at_other: PointerTile<*mut E, { [ROWS, COLS] }> = tile_of(to_other, at.0, at.1, to_row, tile);
        if exact || (rows_left >= ROWS && cols_left >= COLS) {
            let u: Tile<E, { [ROWS, COLS] }> = load(from_grad);
            let g: Tile<E, { [ROWS, COLS] }> = load(from_gate);
            let o: Tile<E, { [ROWS, COLS] }> = load(from_other);
            let found: (Tile<E, { [ROWS, COLS] }>, Tile<E, { [ROWS, COLS] }>) = gradients(activation, u, g, o);
            store(at_gate, found.0);
            store(at_other, found.1);
        } else {
            let mask: Tile<bool, { [ROWS, COLS] }> = inside::<ROWS, COLS>(rows_left, cols_left);
            let u: Tile<E, { [ROWS, COLS] }> = load_where(from_grad, mask);
            let g: Tile<E, { [ROWS, COLS] }> = load_where(from_gate, mask);
            let o: Tile<E, { [ROWS, COLS] }> = load_where(from_other, mask);
            let found: (Tile<E, { [ROWS, COLS] }>, Tile<E, { [ROWS, COLS] }>) = gradients(activation, u, g, o);
            store_where(at_gate, found.0, mask);
            store_where(at_other, found.1, mask);
        }
    }
}
