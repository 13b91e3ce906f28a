// SPDX-License-Identifier: MIT
//! Codes and texts through the C functions themselves.

use super::probe::cutile_probe_row;
use super::{F16, dense};
use crate::exports::*;
use crate::status::{Code, NOT_LOADED, OK};
use crate::tensor_desc::TensorDesc;
use std::ffi::{CStr, c_char};
use std::ptr::{null, null_mut};

fn last_error() -> String {
    let mut buffer = vec![0u8; 4096];
    // SAFETY: a buffer of the size given.
    let len = unsafe { cutile_last_error(buffer.as_mut_ptr().cast(), 4096) };
    String::from_utf8(buffer[..len as usize].to_vec()).expect("UTF-8")
}

fn spec(name: &CStr, descs: &[*const TensorDesc], constants: &[i32]) -> i64 {
    let (nd, nc) = (descs.len() as i32, constants.len() as i32);
    // SAFETY: lists as long as their counts.
    unsafe { cutile_spec(name.as_ptr(), descs.as_ptr(), nd, constants.as_ptr(), nc, 0, 0, 0) }
}

fn text_of(token: i64, capacity: usize) -> (i64, String) {
    let mut buffer = vec![0x55u8; 4096];
    // SAFETY: a buffer of at least the size given.
    let len = unsafe { cutile_spec_text(token, buffer.as_mut_ptr().cast(), capacity as i64) };
    let end = buffer[..capacity].iter().position(|&b| b == 0).unwrap_or(0);
    (len, String::from_utf8_lossy(&buffer[..end]).into_owned())
}

#[test]
fn descriptors_names_and_tokens_are_checked() {
    let x = dense(F16, &[64, 1000]);
    assert_eq!(spec(c"probe_row", &[&x, null()], &[1024]), Code::Null as i64);
    assert_eq!(last_error(), "probe_row: x: null descriptor");
    assert_eq!(spec(c"probe", &[&x, &x], &[1024]), Code::Invalid as i64);
    assert!(last_error().contains("no kernel named \"probe\"; this library has "));
    // SAFETY: null pointers with a count are answered, not followed.
    unsafe {
        assert_eq!(cutile_spec(null(), null(), 0, null(), 0, 0, 0, 0), Code::Null as i64);
        assert_eq!(cutile_spec(c"probe_row".as_ptr(), null(), 2, null(), 0, 0, 0, 0), Code::Null as i64);
        assert_eq!(cutile_spec(c"probe_row".as_ptr(), null(), -2, null(), 0, 0, 0, 0), Code::Invalid as i64);
        for token in [-1, i64::MAX] {
            assert_eq!(cutile_spec_text(token, null_mut(), 0), Code::Invalid as i64);
            assert_eq!(cutile_emit(token, c"sm_90".as_ptr(), null_mut(), null_mut()), Code::Invalid as i32);
            assert_eq!(cutile_loaded(token, 0), Code::Invalid as i32);
            assert_eq!(cutile_load(token, 0, null(), 0), Code::Invalid as i32);
            assert!(last_error().contains("is not a token"));
        }
    }
}

#[test]
fn texts_are_cut_to_the_buffer() {
    let x = dense(F16, &[64, 1000]);
    let token = spec(c"probe_row", &[&x, &x], &[1024]);
    assert!(token >= 0, "{}", last_error());
    let (len, whole) = text_of(token, 4096);
    assert_eq!(whole.len() as i64, len);
    assert_eq!(text_of(token, 12), (len, whole[..11].to_string()));
    assert_eq!(text_of(token, 1), (len, String::new()));
    // SAFETY: no buffer: only the length is asked for.
    assert_eq!(unsafe { cutile_spec_text(token, null_mut(), 100) }, len);
}

#[test]
fn emit_gives_bytes_and_takes_them_back() {
    let x = dense(F16, &[64, 1000]);
    let token = spec(c"probe_row", &[&x, &x], &[1024]);
    let (mut bytes, mut len) = (null_mut(), 0);
    // SAFETY: out-pointers to locals; freed once.
    unsafe {
        assert_eq!(cutile_emit(token, c"sm_90".as_ptr(), &mut bytes, &mut len), OK, "{}", last_error());
        assert_eq!(&std::slice::from_raw_parts(bytes, len as usize)[..7], b"\x7fTileIR");
        cutile_free(bytes, len);
        cutile_free(null_mut(), 0);
        assert_eq!(cutile_emit(token, c"sm_90".as_ptr(), null_mut(), &mut len), Code::Null as i32);
        assert_eq!(cutile_emit(token, c"hopper".as_ptr(), &mut bytes, &mut len), Code::Invalid as i32);
    }
}

#[test]
fn loading_refuses_a_bad_image_and_a_bad_device() {
    let x = dense(F16, &[64, 1000]);
    let token = spec(c"probe_row", &[&x, &x], &[2048]);
    // SAFETY: images of the lengths given.
    unsafe {
        assert_eq!(cutile_load(token, 0, b"\x7fELF".as_ptr(), 4), Code::Invalid as i32);
        assert!(last_error().contains("not a complete cubin"), "{}", last_error());
        for device in [-1, 64, i32::MAX] {
            assert_eq!(cutile_load(token, device, b"\x7fELF".as_ptr(), 4), Code::Device as i32);
            assert_eq!(cutile_loaded(token, device), Code::Device as i32);
        }
        assert_eq!(cutile_loaded(token, 0), 0);
    }
}

#[test]
fn a_typed_export_checks_then_answers_not_loaded() {
    let x = dense(F16, &[64, 1000]);
    let call = |out: *const TensorDesc, grid: [i32; 3], device: i32| {
        // SAFETY: null or live descriptors; nothing is loaded for this constant.
        unsafe { cutile_probe_row(out, &x, 64, 4096, grid[0], grid[1], grid[2], device, 0) }
    };
    assert_eq!(call(&x, [64, 1, 1], 0), NOT_LOADED);
    assert_eq!(call(null(), [64, 1, 1], 0), Code::Null as i32);
    assert_eq!(call(&x, [0, 1, 1], 0), OK, "an empty grid is done");
    assert_eq!(call(&x, [64, 1, 0], 0), OK);
    assert_eq!(call(&x, [64, 1, 1], -1), Code::Device as i32);
    for grid in [[-1, 1, 1], [1, 65_536, 1], [1, 1, 65_536]] {
        assert_eq!(call(&x, grid, 0), Code::Invalid as i32);
        assert!(last_error().contains("grid"), "{}", last_error());
    }
}

#[test]
fn a_panic_is_a_code_and_each_thread_has_its_own_text() {
    // SAFETY: takes nothing.
    assert_eq!(unsafe { cutile_test_panic() }, Code::Panic as i32);
    assert!(last_error().starts_with("cutile_test_panic was called (at src/exports.rs:"), "{}", last_error());
    let barrier = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let barrier = &barrier;
            scope.spawn(move || {
                assert_eq!(last_error(), "", "a fresh thread has no error");
                for round in 0..200 {
                    let token = -1 - i64::from(thread) * 1000 - round;
                    // SAFETY: an unknown token is answered.
                    unsafe { cutile_loaded(token, 0) };
                    barrier.wait();
                    assert_eq!(last_error(), format!("{token} is not a token of cutile_spec"));
                }
            });
        }
    });
}

#[test]
fn the_library_s_own_texts_end_once() {
    // SAFETY: static, NUL-terminated texts.
    let text = |p: *const c_char| unsafe { CStr::from_ptr(p) }.to_str().expect("UTF-8");
    // SAFETY: take nothing.
    let (id, describe, header) = unsafe { (cutile_build_id(), cutile_describe(), cutile_header()) };
    assert!(!text(id).is_empty());
    assert!(text(describe).ends_with("]}"));
    assert!(text(header).contains("int64_t cutile_spec("));
    // SAFETY: takes nothing.
    assert_eq!(unsafe { cutile_abi_version() }, 1);
}
