// SPDX-License-Identifier: MIT
//! What build.rs read from the sources is what the compiler saw, and exports keep their shape.

use crate::exports::index::KERNELS;
use crate::texts::{DESCRIBE, HEADER};
use cutile_compiler::ast::syn::{FnArg, GenericParam, Item, ItemFn, Pat};
use quote::ToTokens;
use serde_json::Value;

fn described() -> Value {
    serde_json::from_str(DESCRIBE.trim_end_matches('\0')).expect("valid JSON")
}

/// Tokens without spaces or trailing commas.
fn plain(tokens: &impl ToTokens) -> String {
    tokens.to_token_stream().to_string().replace(' ', "").replace(",>", ">").replace(",}", "}").replace(",]", "]")
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().unwrap_or_else(|| panic!("{field} of {value}"))
}

/// The parameter's Rust type as its description implies it.
fn rust_type(param: &Value) -> String {
    match text(param, "kind") {
        "tensor" => {
            let dims = vec!["-1"; param["rank"].as_u64().expect("a rank") as usize].join(",");
            format!("&Tensor<{},{{[{dims}]}}>", text(param, "elem"))
        }
        "pointer" => format!("*mut{}", text(param, "elem")),
        "scalar" => text(param, "type").to_string(),
        other => panic!("kind {other}"),
    }
}

#[test]
fn the_description_is_what_the_compiler_s_own_tree_says() {
    let described = described();
    let listed = described["kernels"].as_array().expect("a list");
    assert_eq!(listed.len(), KERNELS.len());
    assert_eq!(described["abi"], 1);
    for (kernel, found) in KERNELS.iter().zip(listed) {
        assert_eq!(text(found, "name"), kernel.name);
        let module = (kernel.ast)();
        assert_eq!(text(found, "module").rsplit("::").next(), Some(module.ast().ident.to_string().as_str()));
        let items = &module.ast().content.as_ref().expect("a body").1;
        let entry: &ItemFn = items
            .iter()
            .find_map(|i| match i {
                Item::Fn(f) if f.sig.ident == kernel.name => Some(f),
                _ => None,
            })
            .expect("the entry is in its module");
        let (file, line) = text(found, "source").rsplit_once(':').expect("file:line");
        let at = module.resolve_span(&entry.sig.ident.span());
        assert_eq!((at.file.as_str(), at.line.to_string().as_str()), (file, line));
        params(entry, &found["params"]);
        generics(entry, &found["generics"]);
    }
}

/// Name and type of each parameter that a described one stands for: a flattened tensor is its address, extents, strides.
fn spelled(param: &Value) -> Vec<(String, String)> {
    let name = text(param, "name");
    if param["flattened"] != true {
        return vec![(name.to_string(), rust_type(param))];
    }
    let mut found = vec![(name.to_string(), format!("*mut{}", text(param, "elem")))];
    for part in ["n", "s"] {
        for axis in 0..param["rank"].as_u64().expect("a rank") {
            found.push((format!("{name}_{part}{axis}"), "i32".to_string()));
        }
    }
    found
}

fn params(entry: &ItemFn, found: &Value) {
    let found: Vec<_> = found.as_array().expect("a list").iter().flat_map(spelled).collect();
    assert_eq!(entry.sig.inputs.len(), found.len());
    for (arg, (name, ty)) in entry.sig.inputs.iter().zip(&found) {
        let FnArg::Typed(arg) = arg else { panic!("self") };
        let Pat::Ident(pattern) = &*arg.pat else { panic!("a pattern") };
        assert_eq!(pattern.ident, name);
        assert_eq!(&plain(&arg.ty), ty);
    }
}

fn generics(entry: &ItemFn, found: &Value) {
    let found = found.as_array().expect("a list");
    assert_eq!(entry.sig.generics.params.len(), found.len());
    for (param, found) in entry.sig.generics.params.iter().zip(found) {
        let (name, kind) = match param {
            GenericParam::Type(t) => (t.ident.to_string(), "type".to_string()),
            GenericParam::Const(c) => (c.ident.to_string(), plain(&c.ty)),
            GenericParam::Lifetime(_) => panic!("a lifetime"),
        };
        assert_eq!((name.as_str(), kind.as_str()), (text(found, "name"), text(found, "kind")));
        let used = entry.sig.inputs.iter().any(|a| {
            let a = plain(a);
            a.contains(&format!("<{name},")) || a.ends_with(&format!("*mut{name}"))
        });
        assert_eq!(found["argument"], kind != "type" || !used, "{name}");
    }
}

#[test]
fn the_header_declares_what_the_description_says() {
    for kernel in described()["kernels"].as_array().expect("a list") {
        assert!(HEADER.contains(text(kernel, "cdef")));
    }
}

/// A function outside the macro would let a panic abort the host program.
#[test]
fn every_export_goes_through_the_one_macro() {
    let needle = concat!("extern ", "\"C\" fn");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
    let mut folders = vec![std::path::PathBuf::from(root)];
    let mut holders = vec![];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("readable") {
            let path = entry.expect("readable").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let count = std::fs::read_to_string(&path).expect("UTF-8").matches(needle).count();
                holders
                    .extend(std::iter::repeat_n(path.strip_prefix(root).expect("inside").display().to_string(), count));
            }
        }
    }
    assert_eq!(holders, ["exports.rs", "exports.rs"], "the comment and the macro");
    let generated = include_str!(concat!(env!("OUT_DIR"), "/exports.rs"));
    assert_eq!(generated.matches(needle).count(), 0);
    let shims: Vec<&str> = generated.split("export! {").skip(1).collect();
    assert_eq!(shims.len(), KERNELS.len());
    for shim in shims {
        let lines = shim.split("\n} }").next().expect("a body").lines().skip(1).count();
        assert!(lines <= 5, "a shim of {lines} lines: {shim}");
    }
}
