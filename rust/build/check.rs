// SPDX-License-Identifier: MIT
//! Rules about whole kernels and about all kernels together.

use super::contract::{DTYPES, HINTS, MAX_KEY_WORDS, MAX_SLOTS, MAX_TYPES};
use super::model::{FIXED, GenericKind, Kernel, Kind, Refusal, SCALARS, TAIL};
use std::collections::BTreeMap;

/// Names that C, C++ or the header itself has taken.
const RESERVED: &[&str] = &[
    "alignas",
    "alignof",
    "and",
    "asm",
    "auto",
    "bool",
    "break",
    "case",
    "catch",
    "char",
    "class",
    "complex",
    "const",
    "constexpr",
    "continue",
    "default",
    "delete",
    "do",
    "double",
    "else",
    "enum",
    "explicit",
    "export",
    "extern",
    "false",
    "float",
    "for",
    "friend",
    "goto",
    "if",
    "inline",
    "int",
    "int32_t",
    "int64_t",
    "long",
    "namespace",
    "new",
    "not",
    "nullptr",
    "operator",
    "or",
    "private",
    "protected",
    "public",
    "register",
    "restrict",
    "return",
    "short",
    "signed",
    "sizeof",
    "static",
    "struct",
    "switch",
    "template",
    "this",
    "throw",
    "true",
    "try",
    "typedef",
    "typeid",
    "typename",
    "typeof",
    "uint32_t",
    "uint64_t",
    "uint8_t",
    "union",
    "unsigned",
    "using",
    "virtual",
    "void",
    "volatile",
    "while",
    "xor",
    "TensorDesc",
];

/// Every rule that needs more than one line of source; all refusals, not only the first.
pub fn all(kernels: &[Kernel]) -> Vec<Refusal> {
    let mut refusals: Vec<Refusal> = kernels.iter().flat_map(one).collect();
    let mut seen: BTreeMap<&str, &Kernel> = BTreeMap::new();
    for k in kernels {
        match seen.get(k.name.as_str()) {
            Some(first) => {
                refusals
                    .push(k.refusal(format!("the name is taken by {}: kernel names are C symbols", first.source())));
            }
            None => {
                seen.insert(&k.name, k);
            }
        }
    }
    refusals
}

/// Files in src/ops and `pub mod` lines must be the same set.
pub fn modules(files: &[String], listed: &[String]) -> Vec<Refusal> {
    let unlisted = files.iter().filter(|f| !listed.contains(f)).map(|f| {
        Refusal::new(format!("src/ops/{f}.rs:1"), format!("not listed in src/ops/mod.rs: add `pub mod {f};` there"))
    });
    let missing = listed.iter().filter(|l| !files.contains(l));
    let missing =
        missing.map(|l| Refusal::new("src/ops/mod.rs:1", format!("lists `{l}`, but src/ops/{l}.rs does not exist")));
    unlisted.chain(missing).collect()
}

fn one(k: &Kernel) -> Vec<Refusal> {
    let mut found = vec![];
    if FIXED.contains(&format!(" cutile_{}(", k.name)) {
        found.push(k.refusal(format!("cutile_{} is a function of the library itself: choose another name", k.name)));
    }
    for p in &k.params {
        match &p.kind {
            Kind::Scalar { ty } if !SCALARS.iter().any(|s| s.0 == ty) => {
                let allowed: Vec<&str> = SCALARS.iter().map(|s| s.0).collect();
                found.push(k.refusal(format!(
                    "scalar parameter {}: {ty} cannot be passed through C; use one of {} (for a half value, f32)",
                    p.name,
                    allowed.join(", ")
                )));
            }
            Kind::Tensor { elem, .. } | Kind::Flattened { elem, .. } | Kind::Pointer { elem }
                if k.type_index(elem).is_none() && !DTYPES.iter().any(|d| d.0 == elem) =>
            {
                found.push(k.refusal(format!(
                    "parameter {}: element type {elem} has no dtype code; use a type generic or one of {}",
                    p.name,
                    DTYPES.map(|d| d.0).join(", ")
                )));
            }
            _ => {}
        }
    }
    let mut names: Vec<String> = TAIL.iter().map(|t| t.0.to_string()).collect();
    let arguments = k.params.iter().map(|p| p.name.clone()).chain(k.constants().map(|g| g.argument_name()));
    for name in arguments {
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        if !plain || RESERVED.contains(&name.as_str()) {
            found.push(k.refusal(format!("parameter {name}: the name cannot be used in the C header")));
        } else if names.contains(&name) {
            found.push(k.refusal(format!("parameter {name}: the name is already an argument of the export")));
        }
        names.push(name);
    }
    if k.slots() > MAX_SLOTS {
        found.push(k.refusal(format!("{} launch parameters, at most {MAX_SLOTS} fit", k.slots())));
    }
    let words = k.tensors().count() + k.constants().count() + HINTS;
    if words > MAX_KEY_WORDS {
        found.push(k.refusal(format!("{words} key words (tensors, constants, hints), at most {MAX_KEY_WORDS} fit")));
    }
    let types = k.generics.iter().filter(|g| g.kind == GenericKind::Type).count();
    if types > MAX_TYPES {
        found.push(k.refusal(format!("{types} type generics, at most {MAX_TYPES} fit")));
    }
    found
}
