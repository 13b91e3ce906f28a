// SPDX-License-Identifier: MIT
//! Every entry through the front end.

use super::{PROBE, constants, dense, descriptors, dtypes, key_of, probe_key};
use crate::exports::index::KERNELS;
use crate::frontend::bytecode;
use crate::kernel::{GenericKind, Kernel};
use crate::specialize::Hints;
use crate::status::Code;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

fn emit(kernel: &'static Kernel, dtype: i32, hints: &Hints) -> Vec<u8> {
    emit_with(kernel, dtype, false, hints)
}

fn emit_with(kernel: &'static Kernel, dtype: i32, flags: bool, hints: &Hints) -> Vec<u8> {
    let key = key_of(kernel, &descriptors(kernel, dtype), &constants(kernel, flags), hints);
    let key = key.unwrap_or_else(|e| panic!("{}: {e:?}", kernel.name));
    // `bytecode` refuses a kernel with any launch check or in-kernel check left.
    bytecode(kernel, &key, "sm_90").unwrap_or_else(|e| panic!("{} dtype {dtype}: {}", kernel.name, e.text))
}

/// On as many threads as there are processors: the front end takes up to seconds for a kernel.
fn of_every_kernel(check: impl Fn(&'static Kernel) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|threads| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            threads.spawn(|| {
                while let Some(kernel) = KERNELS.get(next.fetch_add(1, Ordering::Relaxed)) {
                    check(kernel);
                }
            });
        }
    });
}

#[test]
fn every_entry_compiles_for_every_dtype_to_equal_bytes_each_time() {
    of_every_kernel(|kernel| {
        for (i, &dtype) in dtypes(kernel).iter().enumerate() {
            let bytes = emit(kernel, dtype, &[0; 3]);
            assert_eq!(&bytes[..8], b"\x7fTileIR\0", "{}", kernel.name);
            if i > 0 {
                continue; // flags choose code, and what would differ between two runs, a hash map's order, does so always
            }
            if kernel.generics.iter().any(|g| g.kind == GenericKind::Bool) {
                emit_with(kernel, dtype, true, &[0; 3]);
            }
            let again = std::thread::spawn(move || emit(kernel, dtype, &[0; 3])).join().expect("no panic");
            assert!(bytes == again, "{} dtype {dtype}: the bytecode differs between two runs", kernel.name);
        }
    });
}

#[test]
fn hints_that_are_not_positive_are_the_default() {
    for kernel in KERNELS {
        let dtype = dtypes(kernel)[0];
        let key =
            |h: i32| key_of(kernel, &descriptors(kernel, dtype), &constants(kernel, false), &[h; 3]).expect("valid");
        assert!(key(0) == key(-1), "{}", kernel.name);
    }
    let default = emit(&PROBE, super::F16, &[0; 3]);
    assert!(default == emit(&PROBE, super::F16, &[-1; 3]));
    for (i, value) in [2, 16, 8].into_iter().enumerate() {
        let mut hints = [0; 3];
        hints[i] = value;
        assert!(default != emit(&PROBE, super::F16, &hints), "hint {i} has no effect");
    }
}

#[test]
fn no_host_path_enters_the_bytecode() {
    let kernel = KERNELS[0];
    let bytes = emit(kernel, dtypes(kernel)[0], &[0; 3]);
    let holds = |text: &str| bytes.windows(text.len()).any(|w| w == text.as_bytes());
    assert!(!holds(env!("CARGO_MANIFEST_DIR")));
    assert!(holds("src/ops/"), "the file's path inside the crate");
}

#[test]
fn the_arch_is_checked_and_enters() {
    let key = probe_key(dense(super::F16, &[64, 1024]));
    assert!(bytecode(&PROBE, &key, "sm_90").is_ok());
    assert!(bytecode(&PROBE, &key, "sm_100").is_ok());
    for arch in ["", "90", "sm_", "sm_9", "sm_90a", "sm_90 ", "sm_1000"] {
        let error = bytecode(&PROBE, &key, arch).expect_err(arch);
        assert_eq!(error.code, Code::Invalid);
        assert!(error.text.contains("sm_90"), "{}", error.text);
    }
}

#[test]
fn a_compile_error_names_kernel_and_place() {
    // A tile extent must be a power of two.
    let x = dense(super::F16, &[64, 1000]);
    let key = key_of(&PROBE, &[x, x], &[192], &[0; 3]).expect("the key takes any i32");
    let error = bytecode(&PROBE, &key, "sm_90").expect_err("192 is no power of two");
    assert!(matches!(error.code, Code::Launch | Code::Panic), "{error:?}");
    assert!(error.text.starts_with("probe_row: "), "{}", error.text);
    // The next compile works.
    assert!(bytecode(&PROBE, &probe_key(x), "sm_90").is_ok());
}

/// Run by the test below in a process of its own: the compiler reads its variables once per process.
#[test]
#[ignore = "a child of environment_variables_do_not_alter_the_bytes"]
fn child_prints_a_digest() {
    let key = probe_key(dense(super::F16, &[64, 1024]));
    match bytecode(&PROBE, &key, "sm_90") {
        Ok(bytes) => {
            let mut hasher = DefaultHasher::new();
            bytes.hash(&mut hasher);
            println!("DIGEST={:x}", hasher.finish());
        }
        Err(e) => println!("ERROR={}", e.text),
    }
}

fn child(variable: &str, value: &str) -> String {
    let mut command = Command::new(std::env::current_exe().expect("the test binary"));
    command.args(["--ignored", "--exact", "--nocapture", "tests::frontend::child_prints_a_digest"]);
    let output = command.env(variable, value).output().expect("the test binary runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().find_map(|l| l.find("DIGEST=").or(l.find("ERROR=")).map(|at| l[at..].to_string()));
    line.unwrap_or_else(|| panic!("{variable}={value}: no digest in {text}"))
}

#[test]
fn environment_variables_do_not_alter_the_bytes() {
    let plain = child("UNRELATED", "1");
    assert!(plain.starts_with("DIGEST="), "{plain}");
    for (variable, value) in [
        ("CUTILE_JIT_DEBUG", "full"),
        ("CUTILE_JIT_OPT_LEVEL", "0"),
        ("CUTILE_JIT_SANITIZE", "memcheck"),
        ("CUTILE_FORCE_DEVICE_CHECKS", "1"),
        ("CUTILE_DISABLE_CHECK_HOISTING", "1"),
        ("CUTILE_BYTECODE_VERSION", "13.2"),
        ("CUTILE_TILEIRAS_PATH", "/nonexistent/tileiras"),
        ("CUDA_HOME", "/nonexistent"),
    ] {
        assert_eq!(child(variable, value), plain, "{variable}={value}");
    }
    let refused = child("CUTILE_JIT_DEBUG", "perhaps");
    assert!(refused.starts_with("ERROR=") && refused.contains("CUTILE_JIT_DEBUG"), "{refused}");
}
