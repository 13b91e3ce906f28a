// SPDX-License-Identifier: MIT
//! Activations and their derivatives in f32, for the kernels of `ops`. exp goes through exp2, and 1 / (1 + exp(-x)),
//! which subtracts nothing, stands for (1 + tanh(x / 2)) / 2.

#[cutile::module]
pub mod activations {
    use cutile::core::*;

    /// x * factor, where a subnormal result is none worth keeping: an exponent.
    fn scaled<const ROWS: i32, const COLS: i32>(
        x: Tile<f32, { [ROWS, COLS] }>,
        factor: f32,
    ) -> Tile<f32, { [ROWS, COLS] }> {
        let factor: Tile<f32, { [ROWS, COLS] }> = factor.broadcast(shape![ROWS, COLS]);
        mulf(x, factor, rounding::NearestEven, ftz::Enabled)
    }

    /// factor * x + summand.
    fn line<const ROWS: i32, const COLS: i32>(
        x: Tile<f32, { [ROWS, COLS] }>,
        factor: Tile<f32, { [ROWS, COLS] }>,
        summand: f32,
    ) -> Tile<f32, { [ROWS, COLS] }> {
        let summand: Tile<f32, { [ROWS, COLS] }> = summand.broadcast(shape![ROWS, COLS]);
        fma(x, factor, summand, rounding::NearestEven, ftz::Disabled)
    }

    /// 1 / (1 + 2^x) and what it lacks to 1, which a difference would give with fewer digits.
    fn logistic<const ROWS: i32, const COLS: i32>(
        x: Tile<f32, { [ROWS, COLS] }>,
    ) -> (Tile<f32, { [ROWS, COLS] }>, Tile<f32, { [ROWS, COLS] }>) {
        let shape: Shape<{ [ROWS, COLS] }> = shape![ROWS, COLS];
        let one: Tile<f32, { [ROWS, COLS] }> = constant(1.0f32, shape);
        let most: Tile<f32, { [ROWS, COLS] }> = constant(1.0e30f32, shape); // beyond it both are nothing, but inf * 0
        let e: Tile<f32, { [ROWS, COLS] }> = exp2(x, ftz::Enabled);
        let s: Tile<f32, { [ROWS, COLS] }> = true_div(one, one + e);
        let rest: Tile<f32, { [ROWS, COLS] }> = s * min_tile(e, most);
        (s, rest)
    }

    /// x / (1 + exp(-x)) and its derivative.
    pub fn silu<const ROWS: i32, const COLS: i32>(
        x: Tile<f32, { [ROWS, COLS] }>,
    ) -> (Tile<f32, { [ROWS, COLS] }>, Tile<f32, { [ROWS, COLS] }>) {
        let one: Tile<f32, { [ROWS, COLS] }> = constant(1.0f32, shape![ROWS, COLS]);
        let exponent: Tile<f32, { [ROWS, COLS] }> = scaled(x, -1.4426950408889634f32);
        let s: (Tile<f32, { [ROWS, COLS] }>, Tile<f32, { [ROWS, COLS] }>) = logistic(exponent);
        let factor: Tile<f32, { [ROWS, COLS] }> = fma(x, s.1, one, rounding::NearestEven, ftz::Disabled);
        (x * s.0, s.0 * factor)
    }

    /// x times the normal distribution function of x, and its derivative.
    ///
    /// The function's tail is exp(-x^2 / 2) times a polynomial in 1 / (1 + p |x|): Abramowitz and Stegun 7.1.26,
    /// off by at most 7.5e-8, with the density's exponential in it.
    pub fn gelu<const ROWS: i32, const COLS: i32>(
        x: Tile<f32, { [ROWS, COLS] }>,
    ) -> (Tile<f32, { [ROWS, COLS] }>, Tile<f32, { [ROWS, COLS] }>) {
        let s: Shape<{ [ROWS, COLS] }> = shape![ROWS, COLS];
        let zero: Tile<f32, { [ROWS, COLS] }> = constant(0.0f32, s);
        let one: Tile<f32, { [ROWS, COLS] }> = constant(1.0f32, s);
        let p: Tile<f32, { [ROWS, COLS] }> = constant(0.23164188f32, s);
        let density_0: Tile<f32, { [ROWS, COLS] }> = constant(0.3989422804f32, s);
        let last: Tile<f32, { [ROWS, COLS] }> = constant(0.5307027145f32, s);
        let exponent: Tile<f32, { [ROWS, COLS] }> = scaled(x * x, -0.7213475204444817f32);
        let e: Tile<f32, { [ROWS, COLS] }> = exp2(exponent, ftz::Enabled);
        let t: Tile<f32, { [ROWS, COLS] }> = true_div(one, line(absf(x), p, 1.0f32));
        let sum: Tile<f32, { [ROWS, COLS] }> = line(t, last, -0.7265760135f32);
        let sum: Tile<f32, { [ROWS, COLS] }> = line(t, sum, 0.7107068705f32);
        let sum: Tile<f32, { [ROWS, COLS] }> = line(t, sum, -0.142248368f32);
        let sum: Tile<f32, { [ROWS, COLS] }> = line(t, sum, 0.127414796f32);
        let tail: Tile<f32, { [ROWS, COLS] }> = sum * t * e;
        let below: Tile<f32, { [ROWS, COLS] }> = select(lt_tile(x, zero), tail, one - tail);
        let value: Tile<f32, { [ROWS, COLS] }> = x * below;
        let density: Tile<f32, { [ROWS, COLS] }> = e * density_0;
        let slope: Tile<f32, { [ROWS, COLS] }> = fma(x, density, below, rounding::NearestEven, ftz::Disabled);
        (value, slope)
    }

    /// x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 x^3))) / 2 and its derivative.
    pub fn gelu_tanh<const ROWS: i32, const COLS: i32>(
        x: Tile<f32, { [ROWS, COLS] }>,
    ) -> (Tile<f32, { [ROWS, COLS] }>, Tile<f32, { [ROWS, COLS] }>) {
        let shape: Shape<{ [ROWS, COLS] }> = shape![ROWS, COLS];
        // -2 sqrt(2 / pi) log2 e, and that times 0.044715.
        let cubic: Tile<f32, { [ROWS, COLS] }> = constant(-0.10294324f32, shape);
        let factor: Tile<f32, { [ROWS, COLS] }> = line(x * x, cubic, -2.3022082f32);
        let s: (Tile<f32, { [ROWS, COLS] }>, Tile<f32, { [ROWS, COLS] }>) = logistic(x * factor);
        let value: Tile<f32, { [ROWS, COLS] }> = x * s.0;
        // Beyond 16 the slope is 0 or 1, and the square would overflow.
        let most: Tile<f32, { [ROWS, COLS] }> = constant(16.0f32, shape);
        let size: Tile<f32, { [ROWS, COLS] }> = min_tile(absf(x), most);
        let square: Tile<f32, { [ROWS, COLS] }> = constant(0.21406445f32, shape);
        let rise: Tile<f32, { [ROWS, COLS] }> = line(size * size, square, 1.5957691f32);
        let slope: Tile<f32, { [ROWS, COLS] }> = fma(value * s.1, rise, s.0, rounding::NearestEven, ftz::Disabled);
        (value, slope)
    }

    /// gelu by one or the other.
    pub fn gelu_of<const ROWS: i32, const COLS: i32>(
        x: Tile<f32, { [ROWS, COLS] }>,
        tanh: bool,
    ) -> (Tile<f32, { [ROWS, COLS] }>, Tile<f32, { [ROWS, COLS] }>) {
        let found: (Tile<f32, { [ROWS, COLS] }>, Tile<f32, { [ROWS, COLS] }>) =
            if tanh { gelu_tanh(x) } else { gelu(x) };
        found
    }
}
