// SPDX-License-Identifier: MIT
//! Refuses what is not a complete cubin: the driver looks at the ELF magic alone and crashes on a truncated one.

use crate::status::{Error, Result};

const HEADER: usize = 64;
const SECTION: usize = 64;
const SEGMENT: usize = 56;
const EM_CUDA: u64 = 190;
/// A section without bytes in the file.
const NOBITS: u64 = 8;

fn read(bytes: &[u8], at: usize, size: usize) -> Result<u64> {
    let field = at.checked_add(size).and_then(|end| bytes.get(at..end));
    let field = field.ok_or_else(|| refused("it ends inside a header"))?;
    Ok(field.iter().rev().fold(0, |value, &b| value << 8 | u64::from(b)))
}

fn refused(why: &str) -> Error {
    Error::invalid(format!("not a complete cubin: {why}; assemble the bytecode again"))
}

fn inside(bytes: &[u8], offset: u64, size: u64, what: &str) -> Result<()> {
    match offset.checked_add(size) {
        Some(end) if end <= bytes.len() as u64 => Ok(()),
        _ => Err(refused(&format!("{what} lies outside its {} bytes", bytes.len()))),
    }
}

/// A 64-bit little-endian CUDA ELF whose tables, sections and segments all lie inside the image.
pub fn check(bytes: &[u8]) -> Result<()> {
    if bytes.len() < HEADER || bytes[..6] != *b"\x7fELF\x02\x01" {
        return Err(refused("no 64-bit ELF header"));
    }
    if read(bytes, 18, 2)? != EM_CUDA {
        return Err(refused("an ELF file, but not for CUDA"));
    }
    let (segments, sections) = (read(bytes, 32, 8)?, read(bytes, 40, 8)?);
    let (segment_count, section_count) = (read(bytes, 56, 2)?, read(bytes, 60, 2)?);
    if section_count == 0 {
        return Err(refused("it has no sections"));
    }
    if segment_count > 0 && read(bytes, 54, 2)? != SEGMENT as u64 || read(bytes, 58, 2)? != SECTION as u64 {
        return Err(refused("odd table entry sizes"));
    }
    inside(bytes, segments, segment_count * SEGMENT as u64, "the program header table")?;
    inside(bytes, sections, section_count * SECTION as u64, "the section header table")?;
    for i in 0..section_count as usize {
        let at = sections as usize + i * SECTION;
        if read(bytes, at + 4, 4)? != NOBITS {
            inside(bytes, read(bytes, at + 24, 8)?, read(bytes, at + 32, 8)?, "a section")?;
        }
    }
    for i in 0..segment_count as usize {
        let at = segments as usize + i * SEGMENT;
        inside(bytes, read(bytes, at + 8, 8)?, read(bytes, at + 32, 8)?, "a segment")?;
    }
    Ok(())
}
