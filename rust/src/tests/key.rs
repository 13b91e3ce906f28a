// SPDX-License-Identifier: MIT
//! The specialization rule, bit by bit.

use super::{BF16, F16, F32, PROBE, dense, key_of, probe_key};
use crate::specialize::{decode, text};
use crate::status::Code;
use crate::tensor_desc::TensorDesc;

/// x of the probe as the text shows it: `f16:p16:(16,16):(16,1)`.
fn bits(x: TensorDesc) -> String {
    let line = text(&PROBE, &probe_key(x));
    let word = line.split(' ').find(|w| w.starts_with("x:")).expect("x is a parameter");
    word["x:".len()..].to_string()
}

#[test]
fn pointer_alignment_is_16_bytes() {
    let mut x = dense(F16, &[64, 1024]);
    assert_eq!(bits(x), "f16:p16:(16,16):(16,1)");
    for offset in [1, 2, 4, 8, 12, 14] {
        x.ptr = 0x10_0000 + offset;
        assert_eq!(bits(x), "f16:p:(16,16):(16,1)", "offset {offset}");
    }
    for ptr in [0, 16, 0x8000_0000, 0x7f00_0000_0010] {
        x.ptr = ptr;
        assert_eq!(bits(x), "f16:p16:(16,16):(16,1)", "{ptr:x}");
    }
}

#[test]
fn extents_count_in_elements() {
    for (rows, columns, expected) in [
        (64, 1024, "(16,16)"),
        (63, 1024, "(?,16)"),
        (64, 1000, "(16,?)"),
        (8, 24, "(?,?)"),
        (1, 16, "(?,16)"),
        (0, 16, "(16,16)"),
    ] {
        let found = bits(dense(F32, &[rows, columns]));
        assert!(found.starts_with(&format!("f32:p16:{expected}:")), "{rows}x{columns}: {found}");
    }
}

#[test]
fn strides_count_in_16_bytes() {
    // Elements in 16 bytes: 4 of f32, 8 of f16 and bf16.
    for (dtype, name, stride, expected) in [
        (F32, "f32", 4, "16"),
        (F32, "f32", 1002, "?"),
        (F32, "f32", 1004, "16"),
        (F16, "f16", 1004, "?"),
        (F16, "f16", 1000, "16"),
        (BF16, "bf16", 1001, "?"),
        (BF16, "bf16", 8, "16"),
    ] {
        let mut x = dense(dtype, &[64, 1024]);
        x.strides[0] = stride;
        assert_eq!(bits(x), format!("{name}:p16:(16,16):({expected},1)"), "stride {stride}");
    }
}

#[test]
fn only_a_last_stride_of_one_is_static() {
    let mut x = dense(F16, &[64, 64]);
    x.strides[..2].copy_from_slice(&[1, 64]);
    assert_eq!(bits(x), "f16:p16:(16,16):(?,16)", "transposed");
    x.strides[..2].copy_from_slice(&[128, 2]);
    assert_eq!(bits(x), "f16:p16:(16,16):(16,?)", "every second column");
}

#[test]
fn expanded_and_single_axes_keep_their_strides() {
    let mut x = dense(F16, &[64, 1024]);
    x.strides[0] = 0;
    assert_eq!(bits(x), "f16:p16:(16,16):(16,1)", "expanded rows: 0 is divisible");
    x.strides[1] = 0;
    assert_eq!(bits(x), "f16:p16:(16,16):(16,16)", "expanded columns");
    let mut one = dense(F16, &[1, 1024]);
    one.strides[0] = 7;
    assert_eq!(bits(one), "f16:p16:(?,16):(?,1)", "the stride of a single row counts like any other");
}

#[test]
fn scalars_and_grid_are_not_in_the_key_but_all_else_is() {
    let x = dense(F16, &[64, 1024]);
    let key = |block: i32, hints: [i32; 3]| key_of(&PROBE, &[x, x], &[block], &hints).expect("valid");
    assert!(key(1024, [0; 3]) == key(1024, [0; 3]));
    assert!(key(1024, [0; 3]) != key(512, [0; 3]));
    assert!(key(1024, [0, 4, 0]) != key(1024, [4, 0, 0]));
    let texts: Vec<String> =
        [key(1024, [0; 3]), key(512, [0; 3]), key(1024, [2, 16, 8])].iter().map(|k| text(&PROBE, k)).collect();
    assert_eq!(
        texts,
        [
            "probe_row [E=f16 BLOCK=1024] out:f16:p16:(16,16):(16,1) x:f16:p16:(16,16):(16,1)",
            "probe_row [E=f16 BLOCK=512] out:f16:p16:(16,16):(16,1) x:f16:p16:(16,16):(16,1)",
            "probe_row [E=f16 BLOCK=1024] out:f16:p16:(16,16):(16,1) x:f16:p16:(16,16):(16,1) \
             num_cta_in_cga=2 occupancy=16 num_worker_warps=8",
        ]
    );
    assert_eq!(decode(&PROBE, &key(1024, [0, 16, -3])).hints, [None, Some(16), None]);
}

fn refused(descs: &[TensorDesc], constants: &[i32]) -> (Code, String) {
    let error = key_of(&PROBE, descs, constants, &[0; 3]).err().expect("refused");
    (error.code, error.text)
}

#[test]
fn dtypes_ranks_and_ranges_are_refused_by_name() {
    let x = dense(F16, &[64, 1024]);
    let with = |change: &dyn Fn(&mut TensorDesc)| {
        let mut changed = x;
        change(&mut changed);
        refused(&[x, changed], &[1024])
    };
    for code in [-1, 14, i32::MAX, i32::MIN] {
        let (found, text) = with(&|d| d.dtype = code);
        assert_eq!(found, Code::Unsupported);
        assert!(text.contains("x: unknown dtype code"), "{text}");
    }
    let (code, text) = with(&|d| d.dtype = F32);
    assert_eq!((code, text.as_str()), (Code::Unsupported, "probe_row: x: dtype f32, but out has f16: they must agree"));
    for ndim in [0, 1, 3, -1, 5] {
        let (code, text) = with(&|d| d.ndim = ndim);
        assert_eq!((code, text), (Code::Invalid, format!("probe_row: x: rank {ndim}, expected 2")));
    }
    for (axis, value) in [(0, -1), (1, -1), (0, 1 << 31), (1, i64::MAX), (0, i64::MIN)] {
        let (code, text) = with(&|d| d.shape[axis] = value);
        assert_eq!(code, Code::Invalid);
        assert!(text.contains(&format!("x: extent {value} of axis {axis}")), "{text}");
        let (code, text) = with(&|d| d.strides[axis] = value);
        assert_eq!(code, Code::Invalid);
        assert!(text.contains(&format!("x: stride {value} of axis {axis}")), "{text}");
    }
    assert!(key_of(&PROBE, &[x, dense(F16, &[(1 << 31) - 1, 1])], &[16], &[0; 3]).is_ok());
}

#[test]
fn counts_are_checked() {
    let x = dense(F16, &[64, 1024]);
    for (descs, constants) in
        [(vec![x], vec![1024]), (vec![x, x, x], vec![1024]), (vec![x, x], vec![]), (vec![], vec![1, 2])]
    {
        let (code, text) = refused(&descs, &constants);
        assert_eq!(code, Code::Invalid);
        assert!(text.contains("takes 2 tensors and 1 constants"), "{text}");
    }
}
