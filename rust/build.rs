// SPDX-License-Identifier: MIT
//! Reads src/ops/*.rs and writes, into OUT_DIR, the C exports (exports.rs), the library's
//! texts (texts.rs) and the header (cutile_kernels.h).
//!
//! The header's text is compiled into the library too (`cutile_header()`), which is how a build that only keeps
//! the .so still has it; with CUTILE_HEADER_DIR set it is also written to that folder.
//! Environment: CUTILE_BUILD_ID (the value of `cutile_build_id()`, "dev" without it), CUTILE_HEADER_DIR.

#[path = "build/attributes.rs"]
mod attributes;
#[path = "build/check.rs"]
mod check;
#[allow(dead_code)] // the library uses the rest
#[path = "src/contract.rs"]
mod contract;
#[path = "build/model.rs"]
mod model;
#[path = "build/parse.rs"]
mod parse;
#[path = "build/render.rs"]
mod render;

use model::{Kernel, Refusal};
use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    for path in ["src/ops", "src/contract.rs", "build.rs", "build"] {
        println!("cargo::rerun-if-changed={path}");
    }
    for variable in ["CUTILE_BUILD_ID", "CUTILE_HEADER_DIR"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    match read(Path::new("src/ops")) {
        Ok(kernels) => write(&kernels),
        Err(refusals) => {
            for r in refusals {
                println!("cargo::error={}: {}", r.at, r.text.replace('\n', " "));
            }
        }
    }
}

/// All kernels, sorted by name (the look-up by name is a binary search).
fn read(ops: &Path) -> Result<Vec<Kernel>, Vec<Refusal>> {
    let text = |path: &Path| {
        fs::read_to_string(path).map_err(|e| vec![Refusal::new(format!("{}:1", path.display()), e.to_string())])
    };
    let entries = fs::read_dir(ops).map_err(|e| vec![Refusal::new("src/ops:1", e.to_string())])?;
    let stem = |path: PathBuf| {
        let rust = path.extension().is_some_and(|x| x == "rs");
        path.file_stem().filter(|_| rust).map(|s| s.to_string_lossy().into_owned())
    };
    let mut files: Vec<String> = entries.filter_map(|e| stem(e.ok()?.path())).filter(|s| s != "mod").collect();
    files.sort();
    let listed = parse::listed(&text(&ops.join("mod.rs"))?).map_err(|r| vec![r])?;
    let mut refusals = check::modules(&files, &listed);
    let mut kernels = vec![];
    for op in &files {
        match parse::file(op, &text(&ops.join(format!("{op}.rs")))?) {
            Ok(found) => kernels.extend(found),
            Err(refusal) => refusals.push(refusal),
        }
    }
    refusals.extend(check::all(&kernels));
    kernels.sort_by(|a, b| a.name.cmp(&b.name));
    if refusals.is_empty() { Ok(kernels) } else { Err(refusals) }
}

fn write(kernels: &[Kernel]) {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let build_id = env::var("CUTILE_BUILD_ID").unwrap_or_else(|_| "dev".into());
    let header = render::header(kernels);
    let exports = render::exports(kernels);
    // Written only when different: the crate is not recompiled for an equal text.
    write_if_changed(&out.join("exports.rs"), &exports);
    write_if_changed(&out.join("texts.rs"), &render::texts(kernels, &build_id, &header));
    write_if_changed(&out.join("cutile_kernels.h"), &header);
    if let Some(dir) = env::var_os("CUTILE_HEADER_DIR") {
        write_if_changed(&PathBuf::from(dir).join("cutile_kernels.h"), &header);
    }
}

fn write_if_changed(path: &Path, text: &str) {
    if fs::read_to_string(path).is_ok_and(|old| old == text) {
        return;
    }
    if let Err(e) = fs::write(path, text) {
        println!("cargo::error=cannot write {}: {e}", path.display());
    }
}
