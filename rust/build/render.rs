// SPDX-License-Identifier: MIT
//! Kernels -> exports.rs (statics, shims, description) and cutile_kernels.h.

use super::contract::{self, ABI, DTYPES, MAX_RANK};
use super::model::{GenericKind, Kernel, Kind, Param, SCALARS, TAIL};
use std::fmt::Write;

fn scalar(ty: &str) -> (&'static str, &'static str, &'static str) {
    *SCALARS.iter().find(|s| s.0 == ty).expect("check::all refuses other scalar types")
}

/// Names of the return codes in the header.
const CODES: [(&str, i32, &str); 8] = [
    ("OK", contract::OK, "done"),
    ("NOT_LOADED", contract::NOT_LOADED, "not loaded on the device; of a plan: for pointers of another alignment"),
    ("UNSUPPORTED", contract::UNSUPPORTED, "unsupported dtype or enum value"),
    ("LAUNCH", contract::LAUNCH, "launch or compile error"),
    ("DEVICE", contract::DEVICE, "device or stream error"),
    ("NULL", contract::NULL, "null descriptor or pointer"),
    ("INVALID", contract::INVALID, "invalid argument: rank, range, alignment, count"),
    ("PANIC", contract::PANIC, "a panic was caught"),
];

/// The C declaration without its semicolon.
fn declaration(k: &Kernel) -> String {
    let mut args: Vec<String> = vec![];
    for p in &k.params {
        args.push(match &p.kind {
            Kind::Tensor { .. } | Kind::Pointer { .. } => format!("const TensorDesc* {}", p.name),
            Kind::Scalar { ty } => format!("{} {}", scalar(ty).1, p.name),
        });
    }
    args.extend(k.constants().map(|g| format!("int32_t {}", g.argument_name())));
    args.extend(TAIL.iter().map(|t| format!("{} {}", t.1, t.0)));
    format!("int32_t cutile_{}({})", k.name, args.join(", "))
}

pub fn header(kernels: &[Kernel]) -> String {
    let mut h = String::from(
        "/* SPDX-License-Identifier: MIT */\n/* Generated from src/ops/*.rs by build.rs. */\n#ifndef CUTILE_KERNELS_H\n\
         #define CUTILE_KERNELS_H\n#include <stdint.h>\n#ifdef __cplusplus\nextern \"C\" {\n#endif\n\n",
    );
    let _ = writeln!(h, "#define CUTILE_ABI {ABI}");
    for (name, value, meaning) in CODES {
        let _ = writeln!(h, "#define CUTILE_{name} ({value}) /* {meaning} */");
    }
    for (code, (name, _)) in DTYPES.iter().enumerate() {
        let _ = writeln!(h, "#define CUTILE_DTYPE_{} {code}", name.to_uppercase());
    }
    let _ = write!(
        h,
        "\n/* Strides in elements. */\ntypedef struct {{ uint64_t ptr; int32_t ndim; int64_t shape[{MAX_RANK}]; \
         int64_t strides[{MAX_RANK}]; int32_t dtype; }} TensorDesc;\n\n{}\n\
         /* Kernels: specialize, find the loaded function, launch. CUTILE_NOT_LOADED when it is not loaded. */\n",
        include_str!("fixed.h")
    );
    for k in kernels {
        let _ = writeln!(h, "{};", declaration(k));
    }
    h.push_str("\n#ifdef __cplusplus\n}\n#endif\n#endif\n");
    h
}

/// A JSON string literal.
pub fn json(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if (c as u32) < 0x20 || c == '\u{7f}' => {
                let _ = write!(out, "\\u{:04x}", c as u32);
            }
            c => out.push(c),
        }
    }
    out + "\""
}

pub fn describe(kernels: &[Kernel], build_id: &str) -> String {
    let list: Vec<String> = kernels.iter().map(describe_one).collect();
    format!("{{\"abi\":{ABI},\"build_id\":{},\"kernels\":[{}]}}", json(build_id), list.join(","))
}

fn describe_one(k: &Kernel) -> String {
    let params: Vec<String> = k
        .params
        .iter()
        .map(|p| {
            let name = json(&p.name);
            match &p.kind {
                Kind::Tensor { elem, rank } => {
                    format!("{{\"name\":{name},\"kind\":\"tensor\",\"rank\":{rank},\"elem\":{}}}", json(elem))
                }
                Kind::Pointer { elem } => format!("{{\"name\":{name},\"kind\":\"pointer\",\"elem\":{}}}", json(elem)),
                Kind::Scalar { ty } => format!("{{\"name\":{name},\"kind\":\"scalar\",\"type\":{}}}", json(ty)),
            }
        })
        .collect();
    let generics: Vec<String> = k
        .generics
        .iter()
        .map(|g| {
            let kind = match g.kind {
                GenericKind::Type => "type",
                GenericKind::Int => "i32",
                GenericKind::Bool => "bool",
            };
            format!("{{\"name\":{},\"kind\":\"{kind}\",\"argument\":{}}}", json(&g.name), g.argument)
        })
        .collect();
    format!(
        "{{\"name\":{},\"op\":{},\"module\":{},\"cdef\":{},\"source\":{},\"params\":[{}],\"generics\":[{}]}}",
        json(&k.name),
        json(&k.op),
        json(&format!("ops::{}::{}", k.op, k.module)),
        json(&format!("{};", declaration(k))),
        json(&k.source()),
        params.join(","),
        generics.join(",")
    )
}

/// What src/exports.rs includes: one static and one shim per kernel, the list, and the two texts.
pub fn exports(kernels: &[Kernel], build_id: &str, header: &str) -> String {
    let mut rs = String::new();
    for k in kernels {
        rs.push_str(&statics(k));
        rs.push_str(&shim(k));
    }
    let list: Vec<String> = kernels.iter().map(|k| format!("&super::K_{}", k.name)).collect();
    // In a module of their own: a constant in scope would turn an equally named shim parameter into a pattern.
    let _ = writeln!(rs, "/// The kernels and the library's own texts, NUL-terminated.\npub mod index {{");
    let _ = writeln!(rs, "/// Sorted by name.\npub static KERNELS: &[&super::Kernel] = &[{}];", list.join(", "));
    for (name, text) in [("BUILD_ID", build_id), ("DESCRIBE", &describe(kernels, build_id)), ("HEADER", header)] {
        // A NUL in the text would end it early for C; none of the three can hold one by accident.
        let _ = writeln!(rs, "pub const {name}: &str = {:?};", format!("{}\0", text.replace('\0', "")));
    }
    rs.push_str("}\n");
    rs
}

fn elem(k: &Kernel, p: &Param) -> String {
    let name = p.elem().expect("a tensor or pointer");
    match k.type_index(name) {
        Some(i) => format!("Elem::Generic({i})"),
        None => {
            let code = DTYPES.iter().position(|d| d.0 == name).expect("check::all refuses other element types");
            format!("Elem::Concrete({code})")
        }
    }
}

fn statics(k: &Kernel) -> String {
    let params: Vec<String> = k
        .params
        .iter()
        .map(|p| {
            let kind = match &p.kind {
                Kind::Tensor { rank, .. } => format!("Kind::Tensor {{ rank: {rank}, elem: {} }}", elem(k, p)),
                Kind::Pointer { .. } => format!("Kind::Pointer {{ elem: {} }}", elem(k, p)),
                Kind::Scalar { .. } => "Kind::Scalar".into(),
            };
            format!("Param {{ name: {:?}, kind: {kind} }}", p.name)
        })
        .collect();
    let generics: Vec<String> = k
        .generics
        .iter()
        .map(|g| {
            let kind = match (g.kind, g.argument) {
                (GenericKind::Type, false) => {
                    format!("GenericKind::Bound({})", k.type_index(&g.name).expect("its own"))
                }
                (GenericKind::Type, true) => "GenericKind::Free".into(),
                (GenericKind::Int, _) => "GenericKind::Int".into(),
                (GenericKind::Bool, _) => "GenericKind::Bool".into(),
            };
            format!("Generic {{ name: {:?}, kind: {kind} }}", g.name)
        })
        .collect();
    format!(
        "#[allow(non_upper_case_globals)]\nstatic K_{name}: Kernel = Kernel {{ name: {name:?}, entry: c\"{name}_entry\", \
         module: {module:?}, ast: crate::ops::{op}::{module}::__module_ast_self, params: &[{params}], \
         generics: &[{generics}], tensors: {tensors}, scalars: {scalars}, constants: {constants}, specs: Table::new() }};\n",
        name = k.name,
        module = k.module,
        op = k.op,
        params = params.join(", "),
        generics = generics.join(", "),
        tensors = k.tensors().count(),
        scalars = k.params.len() - k.tensors().count(),
        constants = k.constants().count(),
    )
}

fn shim(k: &Kernel) -> String {
    let (mut args, mut descs, mut scalars): (Vec<String>, Vec<&str>, Vec<String>) = (vec![], vec![], vec![]);
    for p in &k.params {
        match &p.kind {
            Kind::Tensor { .. } | Kind::Pointer { .. } => {
                args.push(format!("{}: *const TensorDesc", p.name));
                descs.push(&p.name);
            }
            Kind::Scalar { ty } => {
                args.push(format!("{}: {}", p.name, if ty == "bool" { "u8" } else { ty }));
                let convert = scalar(ty).2;
                let space = if convert.starts_with("as") { " " } else { "" };
                scalars.push(format!("{}{space}{convert}", p.name));
            }
        }
    }
    let constants: Vec<String> = k.constants().map(|g| g.argument_name()).collect();
    args.extend(constants.iter().map(|c| format!("{c}: i32")));
    args.extend(TAIL.iter().map(|t| format!("{}: {}", t.0, t.2)));
    format!(
        "export! {{ fn cutile_{name}({args}) -> i32 {{\n    // SAFETY: the caller passes null or live descriptors \
         (the header's contract).\n    unsafe {{ launch::call(&K_{name}, &[{descs}], &[{scalars}], &[{constants}],\n    \
         &Call {{ grid: [grid_x, grid_y, grid_z], hints: [num_cta_in_cga, occupancy, num_worker_warps], \
         device: device_id, stream: raw_stream }}) }}\n}} }}\n",
        name = k.name,
        args = args.join(", "),
        descs = descs.join(", "),
        scalars = scalars.join(", "),
        constants = constants.join(", "),
    )
}
