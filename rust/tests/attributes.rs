// SPDX-License-Identifier: MIT
//! `#[tile::flattened]`, `#[tile::holds]`, `#[tile::passes]`: what build.rs reads, and what it refuses.

#[path = "../build/attributes.rs"]
mod attributes;
#[allow(dead_code)]
#[path = "../src/contract.rs"]
mod contract;
#[allow(dead_code)]
#[path = "../build/model.rs"]
mod model;
#[allow(dead_code)]
#[path = "../build/parse.rs"]
mod parse;

use model::{Holds, Kernel, Kind, Pass};

const X: &str = "x: *mut f32, x_n0: i32, x_n1: i32, x_s0: i32, x_s1: i32, n: i32";

fn read(attributes: &str, params: &str) -> Result<Kernel, String> {
    let source = format!(
        "#[cutile::module]\npub mod m {{\n    #[tile::entry(unchecked_accesses = true)]\n    {attributes}\n    \
         pub unsafe fn k({params}) {{}}\n}}\n"
    );
    let mut kernels = parse::file("op", &source).map_err(|r| format!("{}: {}", r.at, r.text))?;
    Ok(kernels.remove(0))
}

#[track_caller]
fn refused(attributes: &str, params: &str, text: &str) {
    let found = read(attributes, params).expect_err("refused");
    assert!(found.starts_with("src/ops/op.rs:4: k: ") && found.contains(text), "{found}");
}

#[test]
fn a_flattened_tensor_is_one_parameter() {
    let k = read("#[tile::flattened(x = 2)]", X).expect("accepted");
    assert_eq!(k.params.len(), 2);
    assert_eq!(k.params[0].kind, Kind::Flattened { elem: "f32".into(), rank: 2 });
    assert_eq!((k.params[1].name.as_str(), k.slots()), ("n", 6));
}

#[test]
fn flattened_parts_must_follow_in_order() {
    refused("#[tile::flattened(x = 1)]", X, "`x_s0: i32` must be parameter 2 behind x");
    refused("#[tile::flattened(x = 2)]", "x: *mut f32, x_n0: i64", "`x_n0: i32` must be parameter 1 behind x");
    refused("#[tile::flattened(y = 2)]", X, "there is no parameter y");
    refused("#[tile::flattened(n = 2)]", X, "n is not a pointer");
    refused("#[tile::flattened(x = 6)]", X, "the rank of x is outside 1..=5");
    refused("#[tile::flattened(x)]", X, "write x = RANK");
}

#[test]
fn facts_are_read() {
    let facts = "x(extents = [-1, 1], strides = [8, -1], pointer_16, extents_16 = [0], strides_16 = [1])";
    let k = read(&format!("#[tile::flattened(x = 2)]\n    #[tile::holds({facts})]"), X).expect("accepted");
    assert_eq!(
        k.params[0].holds,
        Some(Holds {
            extents: vec![-1, 1],
            strides: vec![8, -1],
            pointer_16: true,
            extents_16: vec![0],
            strides_16: vec![1]
        })
    );
    let k = read("#[tile::holds(x(strides = [1]))]", "x: &Tensor<f32, {[-1]}>").expect("accepted");
    assert_eq!(k.params[0].holds.as_ref().map(|h| h.strides.clone()), Some(vec![1]));
}

#[test]
fn facts_that_do_not_fit_are_refused() {
    let x = "x: &Tensor<f32, {[-1]}>, n: i32";
    refused("#[tile::holds(x(extents = [1, 1]))]", x, "extents of x does not fit rank 1");
    refused("#[tile::holds(x(extents_16 = [1]))]", x, "extents_16 of x does not fit rank 1");
    refused("#[tile::holds(x(aligned))]", x, "aligned is not a fact");
    refused("#[tile::holds(n(pointer_16))]", x, "n is not a tensor");
}

#[test]
fn passes_are_read_in_order() {
    let k = read("#[tile::passes(drop_bounds, fold_pads, wrapping_truncations, scan_axes = [1, 0])]", "n: i32");
    let expected = [Pass::DropBounds, Pass::FoldPads, Pass::WrappingTruncations, Pass::ScanAxes(vec![1, 0])];
    assert_eq!(k.expect("accepted").passes, expected);
    let k = read("#[tile::passes(constant_bits, constant_tiles, unchanged_results)]", "n: i32");
    assert_eq!(k.expect("accepted").passes, [Pass::ConstantBits, Pass::ConstantTiles, Pass::UnchangedResults]);
    refused("#[tile::passes(drop_everything)]", "n: i32", "there is no pass drop_everything");
    refused("#[tile::passes(scan_axes)]", "n: i32", "there is no pass scan_axes of that form");
    refused("#[tile::passes(drop_bounds = 1 2)]", "n: i32", "#[tile::passes]");
}
