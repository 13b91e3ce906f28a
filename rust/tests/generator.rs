// SPDX-License-Identifier: MIT
//! build.rs's parts on small sources: what they read, and what they refuse, with file and line.

#[allow(dead_code)]
#[path = "../build/attributes.rs"]
mod attributes;
#[allow(dead_code)]
#[path = "../build/check.rs"]
mod check;
#[allow(dead_code)]
#[path = "../src/contract.rs"]
mod contract;
#[allow(dead_code)]
#[path = "../build/model.rs"]
mod model;
#[allow(dead_code)]
#[path = "../build/parse.rs"]
mod parse;
#[allow(dead_code)]
#[path = "../build/render.rs"]
mod render;

use model::{Generic, GenericKind, Kernel, Kind, Param};

/// An op file whose entry `k` starts on line 5.
fn source(generics: &str, params: &str) -> String {
    format!(
        "#[cutile::module]\npub mod m {{\n    use cutile::core::*;\n    #[tile::entry(unchecked_accesses = true)]\n    \
         pub unsafe fn k{generics}({params}) {{}}\n}}\n"
    )
}

fn read(source: &str) -> Result<Vec<Kernel>, String> {
    let kernels = parse::file("op", source).map_err(|r| format!("{}: {}", r.at, r.text))?;
    let refusals = check::all(&kernels);
    match refusals.first() {
        None => Ok(kernels),
        Some(_) => Err(refusals.iter().map(|r| format!("{}: {}", r.at, r.text)).collect::<Vec<_>>().join("\n")),
    }
}

#[track_caller]
fn refused(source: &str, at: &str, text: &str) {
    let found = read(source).expect_err("refused");
    assert!(found.starts_with(at) && found.contains(text), "{found}");
}

#[track_caller]
fn refused_params(generics: &str, params: &str, text: &str) {
    refused(&source(generics, params), "src/ops/op.rs:5: k: ", text);
}

const X: &str = "x: &Tensor<E, { [-1, -1] }>";

#[test]
fn a_signature_is_read() {
    let params = format!("{X}, y: &Tensor<i32, {{[-1,-1,-1,-1,-1]}}>, p: *mut B, n: i32, alpha: f32, flag: bool");
    let kernels = read(&source(
        "<E: ElementType, A: ElementType, const BLOCK: i32, B: ElementType, const CAUSAL: bool>",
        &params,
    ));
    let k = &kernels.expect("accepted")[0];
    assert_eq!(
        (k.name.as_str(), k.op.as_str(), k.module.as_str(), k.source().as_str()),
        ("k", "op", "m", "src/ops/op.rs:5")
    );
    let param = |name: &str, kind| Param { name: name.into(), kind, holds: None };
    assert_eq!(
        k.params,
        [
            param("x", Kind::Tensor { elem: "E".into(), rank: 2 }),
            param("y", Kind::Tensor { elem: "i32".into(), rank: 5 }),
            param("p", Kind::Pointer { elem: "B".into() }),
            param("n", Kind::Scalar { ty: "i32".into() }),
            param("alpha", Kind::Scalar { ty: "f32".into() }),
            param("flag", Kind::Scalar { ty: "bool".into() }),
        ]
    );
    let generic = |name: &str, kind, argument| Generic { name: name.into(), kind, argument };
    assert_eq!(
        k.generics,
        [
            generic("E", GenericKind::Type, false),
            generic("A", GenericKind::Type, true),
            generic("BLOCK", GenericKind::Int, true),
            generic("B", GenericKind::Type, false),
            generic("CAUSAL", GenericKind::Bool, true),
        ]
    );
    assert_eq!(k.slots(), 5 + 11 + 1 + 3);
    let header = render::header(std::slice::from_ref(k));
    assert!(header.contains(
        "int32_t cutile_k(const TensorDesc* x, const TensorDesc* y, const TensorDesc* p, int32_t n, float alpha, \
         uint8_t flag, int32_t A_dtype, int32_t BLOCK, int32_t CAUSAL, int32_t grid_x, int32_t grid_y, int32_t grid_z, \
         int32_t num_cta_in_cga, int32_t occupancy, int32_t num_worker_warps, int32_t device_id, uint64_t raw_stream);"
    ));
    let rust = render::exports(std::slice::from_ref(k));
    assert!(
        rust.contains("&[n as u32 as u64, alpha.to_bits() as u64, flag as u64], &[A_dtype, BLOCK, CAUSAL]"),
        "{rust}"
    );
    assert!(rust.contains("tensors: 3, scalars: 3, constants: 3"));
}

#[test]
fn outputs_are_never_mutable_tensors() {
    refused_params("<E: ElementType>", "x: &mut Tensor<E, {[-1]}>", "never `&mut Tensor`");
}

#[test]
fn parameter_types_outside_the_contract() {
    for (params, text) in [
        ("x: &Tensor<u32, {[-1]}>", "element type u32 has no dtype code"),
        ("x: &Tensor<tf32, {[-1]}>", "element type tf32"),
        ("x: *mut u64", "element type u64"),
        ("x: *const f32", "`*mut E`, not `*const E`"),
        ("x: &Tensor<f32, {[32, -1]}>", "static extents"),
        ("x: &Tensor<f32, {[-2]}>", "static extents"),
        ("x: &Tensor<f32, {[]}>", "rank 0 is outside 1..=5"),
        ("x: &Tensor<f32, {[-1,-1,-1,-1,-1,-1]}>", "rank 6 is outside 1..=5"),
        ("x: &Tensor<f32, D>", "a reference is"),
        ("x: &[f32]", "a reference is"),
        ("x: &Tile<f32, {[8]}>", "a reference is"),
        ("x: f16", "scalar parameter x: f16 cannot be passed"),
        ("x: bf16", "scalar parameter x: bf16"),
        ("x: usize", "scalar parameter x: usize"),
        ("x: (i32, i32)", "not a tensor, pointer or scalar"),
        ("x: Tile<f32, {[8]}>", "not a tensor, pointer or scalar"),
        ("(a, b): (i32, i32)", "plain names"),
    ] {
        refused_params("", params, text);
    }
    refused_params("<E: ElementType>", &format!("{X}, alpha: E"), "scalar parameter alpha: E");
}

#[test]
fn generics_outside_the_contract() {
    refused_params("<const N: usize>", "n: i32", "only i32 and bool");
    refused_params("<const N: [i32; 2]>", "n: i32", "only i32 and bool");
    refused_params("<'a>", "n: i32", "lifetime");
    let nine: Vec<String> = (0..9).map(|i| format!("T{i}: ElementType")).collect();
    refused_params(&format!("<{}>", nine.join(", ")), "n: i32", "9 type generics");
}

#[test]
fn names_that_c_or_the_tail_has_taken() {
    for name in ["int", "register", "default", "class", "TensorDesc", "int32_t"] {
        refused_params("", &format!("{name}: i32"), "cannot be used in the C header");
    }
    for name in ["occupancy", "grid_x", "device_id", "raw_stream", "num_worker_warps"] {
        refused_params("", &format!("{name}: i32"), "already an argument");
    }
    refused_params("<const n: i32>", "n: i32", "parameter n: the name is already an argument");
    refused_params("<A: ElementType>", "A_dtype: i32", "parameter A_dtype: the name is already");
    refused_params("", "größe: i32", "cannot be used in the C header");
    for name in ["spec", "emit", "free", "plan", "run_plan", "header", "abi_version", "test_panic"] {
        let source = source("", "n: i32").replace("fn k(", &format!("fn {name}("));
        refused(&source, &format!("src/ops/op.rs:5: {name}: "), "a function of the library itself");
    }
}

#[test]
fn launches_and_keys_that_do_not_fit() {
    let list = |n: usize, what: &str| (0..n).map(|i| format!("p{i}: {what}")).collect::<Vec<_>>().join(", ");
    assert!(read(&source("", &list(11, "&Tensor<f32, {[-1,-1,-1,-1,-1]}>"))).is_ok());
    refused_params("", &list(18, "&Tensor<f32, {[-1,-1,-1,-1,-1]}>"), "198 launch parameters, at most 192");
    refused_params("", &list(193, "i32"), "193 launch parameters");
    assert!(read(&source("", &list(61, "*mut f32"))).is_ok());
    refused_params("", &list(62, "*mut f32"), "65 key words");
}

#[test]
fn cfg_anywhere_it_could_hide_an_entry() {
    let plain = source("", "n: i32");
    refused(
        &plain.replace("    #[tile::entry", "    #[cfg(test)] #[tile::entry"),
        "src/ops/op.rs:5: k: ",
        "#[cfg] on an entry",
    );
    refused(
        &plain.replace("    #[tile::entry", "    #[cfg_attr(test, x)] #[tile::entry"),
        "src/ops/op.rs:5",
        "#[cfg] on an entry",
    );
    refused(
        &plain.replace("#[cutile::module]", "#[cutile::module] #[cfg(test)]"),
        "src/ops/op.rs:2: module m",
        "#[cfg]",
    );
    refused(&format!("#![cfg(test)]\n{plain}"), "src/ops/op.rs:1: ", "#![cfg]");
    refused_params("", "#[cfg(test)] n: i32", "parameter n: #[cfg]");
}

#[test]
fn entries_have_one_form_and_one_place() {
    let plain = source("", "n: i32");
    refused(&plain.replace("tile::entry", "cutile::entry"), "src/ops/op.rs:5: k: ", "write #[tile::entry(..)]");
    refused(&plain.replace("tile::entry", "entry"), "src/ops/op.rs:5: k: ", "write #[tile::entry(..)]");
    refused(&plain.replace("(unchecked_accesses = true)", ""), "src/ops/op.rs:5: k: ", "unchecked_accesses = true");
    refused(
        &plain.replace("unchecked_accesses = true", "unchecked_accesses = false"),
        "src/ops/op.rs:5",
        "unchecked_accesses",
    );
    refused(&plain.replace("unsafe fn", "fn"), "src/ops/op.rs:5: k: ", "`unsafe fn`");
    refused(&plain.replace(") {}", ") -> i32 { 0 }"), "src/ops/op.rs:5: k: ", "returns nothing");
    refused(&plain.replace("#[cutile::module]\n", "\n"), "src/ops/op.rs:5: k: ", "directly in a #[cutile::module]");
    refused(&plain.replace("pub mod", "mod"), "src/ops/op.rs:2: module m", "must be `pub`");
    refused(&format!("pub mod outer {{\n{plain}}}\n"), "src/ops/op.rs:3: m: ", "at the top of the file");
    refused(&plain.replace("fn k", "fn k k"), "src/ops/op.rs:5: ", "syntax error");
    refused(&plain.replace(") {}", ") {"), "src/ops/op.rs:2: ", "an unclosed delimiter");
    assert!(
        read(&plain.replace("tile::entry(", "tile::entry(optimization_hints = (default = (occupancy = 2,),), "))
            .is_ok()
    );
    assert_eq!(read("pub fn helper() {}\n").expect("no kernels"), []);
}

#[test]
fn kernel_names_are_unique_over_all_files() {
    let one = parse::file("one", &source("", "n: i32")).expect("accepted");
    let two = parse::file("two", &source("", "n: i64")).expect("accepted");
    let refusals = check::all(&[one, two].concat());
    assert_eq!(refusals.len(), 1);
    assert_eq!(refusals[0].at, "src/ops/two.rs:5");
    assert!(refusals[0].text.contains("the name is taken by src/ops/one.rs:5"));
}

#[test]
fn every_file_is_listed_by_hand() {
    let listed = parse::listed("//! Ops.\n/// Softmax.\npub mod softmax;\npub mod matmul;\n").expect("accepted");
    assert_eq!(listed, ["softmax", "matmul"]);
    let files = ["matmul".to_string(), "relu".into()];
    let texts: Vec<String> = check::modules(&files, &listed).iter().map(|r| format!("{}: {}", r.at, r.text)).collect();
    assert_eq!(
        texts,
        [
            "src/ops/relu.rs:1: not listed in src/ops/mod.rs: add `pub mod relu;` there",
            "src/ops/mod.rs:1: lists `softmax`, but src/ops/softmax.rs does not exist",
        ]
    );
    for (source, line, text) in [
        ("pub mod a;\n#[cfg(test)]\npub mod b;\n", 2, "takes no attributes"),
        ("#[path = \"x.rs\"]\npub mod b;\n", 1, "takes no attributes"),
        ("pub mod a {}\n", 1, "only `pub mod <op>;`"),
        ("use x;\n", 1, "only `pub mod <op>;`"),
    ] {
        let refusal = parse::listed(source).expect_err("refused");
        assert_eq!(refusal.at, format!("src/ops/mod.rs:{line}"));
        assert!(refusal.text.contains(text), "{}", refusal.text);
    }
}

#[test]
fn the_description_is_json_whatever_the_build_id_holds() {
    let kernels = read(&source("<E: ElementType>", X)).expect("accepted");
    let id = "a\"b\\c\n\u{1}ü";
    let value: serde_json::Value = serde_json::from_str(&render::describe(&kernels, id)).expect("valid JSON");
    assert_eq!(value["build_id"], id);
    let kernel = &value["kernels"][0];
    assert_eq!(
        (&kernel["op"], &kernel["module"], &kernel["source"]),
        (&"op".into(), &"ops::op::m".into(), &"src/ops/op.rs:5".into())
    );
    assert_eq!(kernel["params"][0], serde_json::json!({"name": "x", "kind": "tensor", "rank": 2, "elem": "E"}));
    assert_eq!(kernel["generics"][0], serde_json::json!({"name": "E", "kind": "type", "argument": false}));
}
