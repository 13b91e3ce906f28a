// SPDX-License-Identifier: MIT
//! Exponentials of what is measured from a maximum.

#[cutile::module]
pub mod exponents {
    use cutile::core::*;

    /// exp((x - top) * log2 e) through exp2. The difference comes first: scaling x before would overflow near the
    /// largest floats and turn x == top into something else than 1.
    pub fn exp_below<const ROWS: i32, const COLS: i32>(
        x: Tile<f32, { [ROWS, COLS] }>,
        top: Tile<f32, { [ROWS, COLS] }>,
    ) -> Tile<f32, { [ROWS, COLS] }> {
        let log2e: Tile<f32, { [ROWS, COLS] }> = constant(1.4426950408889634f32, shape![ROWS, COLS]);
        let scaled: Tile<f32, { [ROWS, COLS] }> = mulf(x - top, log2e, rounding::NearestEven, ftz::Enabled);
        exp2(scaled, ftz::Enabled)
    }
}
