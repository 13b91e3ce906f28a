// SPDX-License-Identifier: MIT
//! What is refused before the driver sees it.

use crate::image::check;
use crate::status::Code;

/// A CUDA ELF with one section of eight bytes.
fn elf() -> Vec<u8> {
    let mut image = vec![0; 64];
    image[..6].copy_from_slice(b"\x7fELF\x02\x01");
    image[18..20].copy_from_slice(&190u16.to_le_bytes());
    image[40..48].copy_from_slice(&72u64.to_le_bytes());
    image[58..60].copy_from_slice(&64u16.to_le_bytes());
    image[60..62].copy_from_slice(&1u16.to_le_bytes());
    image.extend([7; 8]);
    let mut section = [0; 64];
    section[4..8].copy_from_slice(&1u32.to_le_bytes());
    section[24..32].copy_from_slice(&64u64.to_le_bytes());
    section[32..40].copy_from_slice(&8u64.to_le_bytes());
    image.extend(section);
    image
}

#[test]
fn a_complete_image_passes() {
    check(&elf()).expect("complete");
}

#[test]
fn every_truncation_is_refused() {
    let image = elf();
    for len in 0..image.len() {
        let error = check(&image[..len]).expect_err("truncated");
        assert_eq!(error.code, Code::Invalid, "{len} bytes");
        assert!(error.text.starts_with("not a complete cubin: "), "{}", error.text);
    }
}

#[test]
fn other_files_and_broken_tables_are_refused() {
    let change = |at: usize, bytes: &[u8]| {
        let mut image = elf();
        image[at..at + bytes.len()].copy_from_slice(bytes);
        check(&image).expect_err("refused").text
    };
    assert!(change(0, b"\x7fTileI").contains("no 64-bit ELF header"));
    assert!(change(4, &[1]).contains("no 64-bit ELF header"));
    assert!(change(18, &62u16.to_le_bytes()).contains("not for CUDA"));
    assert!(change(60, &0u16.to_le_bytes()).contains("no sections"));
    assert!(change(60, &9u16.to_le_bytes()).contains("section header table"));
    assert!(change(58, &40u16.to_le_bytes()).contains("odd table"));
    assert!(change(40, &u64::MAX.to_le_bytes()).contains("section header table"));
    assert!(change(72 + 32, &1000u64.to_le_bytes()).contains("a section lies outside"));
    assert!(change(72 + 24, &u64::MAX.to_le_bytes()).contains("a section lies outside"));
}
