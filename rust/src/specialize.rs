// SPDX-License-Identifier: MIT
//! Descriptors, constants and hints -> the specialization key: the only place that decides it.
//!
//! The rule is cuTile Python's: pointer 16-byte aligned or not; each stride a multiple of 16 bytes or not; each
//! extent a multiple of 16 or not; a last stride of 1 is static; nothing for integer scalars. Everything that
//! decides the bytecode besides the arch is in the key's words, so `frontend` takes a key and nothing else.

use crate::contract::{HINTS, MAX_KEY_WORDS, MAX_RANK, MAX_TYPES};
use crate::holds;
use crate::kernel::{Elem, GenericKind, Kernel, Kind, Param};
use crate::status::{Code, Error, Result};
use crate::tensor_desc::{DType, TensorDesc};
use std::fmt::Write;

/// num_cta_in_cga, occupancy, num_worker_warps; not positive = the compiler's default.
pub type Hints = [i32; HINTS];

pub const HINT_NAMES: [&str; HINTS] = ["num_cta_in_cga", "occupancy", "num_worker_warps"];

/// Words: one per tensor or pointer (`TensorBits`), one per constant, one per hint (0 = default).
#[derive(Clone, Copy)]
pub struct Key {
    words: [u32; MAX_KEY_WORDS],
    len: usize,
    hash: u64,
}

impl Key {
    fn new() -> Key {
        Key { words: [0; MAX_KEY_WORDS], len: 0, hash: 0 }
    }

    /// build.rs refuses kernels whose keys do not fit.
    #[inline]
    fn push(&mut self, word: u32) {
        self.words[self.len] = word;
        self.len += 1;
        self.hash = (self.hash.rotate_left(5) ^ u64::from(word)).wrapping_mul(0x517c_c1b7_2722_0a95);
    }

    #[inline]
    pub fn words(&self) -> &[u32] {
        &self.words[..self.len]
    }

    /// The multiplication leaves the low bits weak, tables index with them: take the high half.
    #[inline]
    pub fn hash(&self) -> u64 {
        self.hash >> 32
    }
}

impl PartialEq for Key {
    #[inline]
    fn eq(&self, other: &Key) -> bool {
        self.hash == other.hash && self.words() == other.words()
    }
}

/// A tensor's word, unpacked. Extent and stride bits by axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TensorBits {
    pub dtype: DType,
    pub pointer_16: bool,
    pub extents_16: [bool; MAX_RANK],
    pub strides_16: [bool; MAX_RANK],
    pub unit_last: bool,
}

const POINTER: u32 = 8;
const EXTENTS: u32 = 9;
const STRIDES: u32 = EXTENTS + MAX_RANK as u32;
const UNIT: u32 = STRIDES + MAX_RANK as u32;

impl TensorBits {
    fn unpack(word: u32) -> TensorBits {
        let bit = |at: u32| word >> at & 1 == 1;
        TensorBits {
            dtype: DType::from_code((word & 0xff) as i32).expect("keys hold checked dtypes"),
            pointer_16: bit(POINTER),
            extents_16: std::array::from_fn(|axis| bit(EXTENTS + axis as u32)),
            strides_16: std::array::from_fn(|axis| bit(STRIDES + axis as u32)),
            unit_last: bit(UNIT),
        }
    }
}

/// # Safety
/// Each pointer in `descs` is null or points to a live `TensorDesc`.
#[inline]
pub unsafe fn key(kernel: &Kernel, descs: &[*const TensorDesc], constants: &[i32], hints: &Hints) -> Result<Key> {
    if descs.len() != kernel.tensors || constants.len() != kernel.constants {
        return Err(counts(kernel, descs.len(), constants.len()));
    }
    let mut key = Key::new();
    let mut types: [Option<(DType, &'static str)>; MAX_TYPES] = [None; MAX_TYPES];
    for (param, desc) in kernel.descriptors().zip(descs) {
        // SAFETY: null or live, says the caller.
        let Some(desc) = (unsafe { desc.as_ref() }) else {
            return Err(Error::new(Code::Null, format!("{}: {}: null descriptor", kernel.name, param.name)));
        };
        key.push(tensor_word(kernel, param, desc, &mut types)?);
    }
    for (generic, &value) in kernel.constant_generics().zip(constants) {
        let valid = match generic.kind {
            GenericKind::Free => DType::from_code(value).is_some(),
            GenericKind::Bool => value == 0 || value == 1,
            GenericKind::Int | GenericKind::Bound(_) => true,
        };
        if !valid {
            return Err(constant(kernel, generic.name, generic.kind, value));
        }
        key.push(value as u32);
    }
    for &hint in hints {
        key.push(hint.max(0) as u32);
    }
    Ok(key)
}

#[inline]
fn tensor_word(
    kernel: &Kernel,
    param: &'static Param,
    desc: &TensorDesc,
    types: &mut [Option<(DType, &'static str)>; MAX_TYPES],
) -> Result<u32> {
    let (rank, elem) = match param.kind {
        Kind::Tensor { rank, elem } | Kind::Flattened { rank, elem } => (rank, elem),
        Kind::Pointer { elem } => (0, elem),
        Kind::Scalar => (0, Elem::Generic(0)),
    };
    let Some(dtype) = DType::from_code(desc.dtype) else {
        return Err(Error::new(
            Code::Unsupported,
            format!("{}: {}: unknown dtype code {}", kernel.name, param.name, desc.dtype),
        ));
    };
    match elem {
        Elem::Concrete(code) if code != dtype.code() => return Err(wrong_type(kernel, param, dtype, code)),
        Elem::Concrete(_) => {}
        Elem::Generic(i) => match types[i] {
            None => types[i] = Some((dtype, param.name)),
            Some((first, _)) if first == dtype => {}
            Some((first, by)) => return Err(disagree(kernel, param, dtype, first, by)),
        },
    }
    let mut word = u32::from(dtype.code()) | u32::from(desc.ptr & 15 == 0) << POINTER;
    if rank > 0 {
        if desc.ndim != rank as i32 {
            return Err(wrong_rank(kernel, param, desc, rank));
        }
        let stride_mask = i64::from(dtype.per_16_bytes()) - 1;
        for axis in 0..rank {
            let (extent, stride) = (desc.shape[axis], desc.strides[axis]);
            if (extent | stride) as u64 >> 31 != 0 {
                return Err(out_of_range(kernel, param, desc, axis));
            }
            word |= u32::from(extent & 15 == 0) << (EXTENTS + axis as u32);
            word |= u32::from(stride & stride_mask == 0) << (STRIDES + axis as u32);
        }
        word |= u32::from(desc.strides[rank - 1] == 1) << UNIT;
    }
    if let Some(holds) = &param.holds {
        holds::check(kernel, param, holds, desc, &TensorBits::unpack(word))?;
    }
    Ok(word)
}

/// A key's meaning, for the front end and for people.
pub struct Decoded {
    /// Per tensor or pointer.
    pub tensors: Vec<(&'static Param, TensorBits)>,
    /// Values of all generics in declaration order, as the front end spells them.
    pub generics: Vec<(&'static str, String)>,
    pub hints: [Option<i32>; HINTS],
}

pub fn decode(kernel: &'static Kernel, key: &Key) -> Decoded {
    let (tensor_words, rest) = key.words().split_at(kernel.tensors);
    let (mut constants, hints) = (rest[..kernel.constants].iter(), &rest[kernel.constants..]);
    let tensors: Vec<_> = kernel.descriptors().zip(tensor_words.iter().map(|&w| TensorBits::unpack(w))).collect();
    let bound = |index: usize| {
        let carries = |p: &Param| p.kind.elem() == Some(Elem::Generic(index));
        tensors.iter().find(|(p, _)| carries(p)).map(|(_, bits)| bits.dtype.name().to_string())
    };
    let mut constant = || *constants.next().expect("as many words as constants") as i32;
    let generics = kernel.generics.iter().map(|g| {
        let value = match g.kind {
            GenericKind::Bound(index) => bound(index).expect("build.rs found the tensor that binds it"),
            GenericKind::Free => DType::from_code(constant()).expect("checked in key").name().to_string(),
            GenericKind::Int => constant().to_string(),
            GenericKind::Bool => (constant() != 0).to_string(),
        };
        (g.name, value)
    });
    let generics = generics.collect();
    let hints = std::array::from_fn(|i| (hints[i] != 0).then_some(hints[i] as i32));
    Decoded { tensors, generics, hints }
}

/// One line; equal texts mean equal bytecode for the same library and arch.
pub fn text(kernel: &'static Kernel, key: &Key) -> String {
    let decoded = decode(kernel, key);
    let mut line = format!("{} [", kernel.name);
    for (i, (name, value)) in decoded.generics.iter().enumerate() {
        let _ = write!(line, "{}{name}={value}", if i > 0 { " " } else { "" });
    }
    line.push(']');
    for (param, bits) in &decoded.tensors {
        let _ = write!(line, " {}:{}:{}", param.name, bits.dtype.name(), if bits.pointer_16 { "p16" } else { "p" });
        if let Kind::Tensor { rank, .. } | Kind::Flattened { rank, .. } = param.kind {
            let mark = |yes: bool| if yes { "16" } else { "?" };
            let extents: Vec<&str> = (0..rank).map(|a| mark(bits.extents_16[a])).collect();
            let unit = |a: usize| bits.unit_last && a == rank - 1;
            let strides: Vec<&str> = (0..rank).map(|a| if unit(a) { "1" } else { mark(bits.strides_16[a]) }).collect();
            let _ = write!(line, ":({}):({})", extents.join(","), strides.join(","));
        }
    }
    for (name, hint) in HINT_NAMES.iter().zip(decoded.hints) {
        if let Some(value) = hint {
            let _ = write!(line, " {name}={value}");
        }
    }
    line
}

#[cold]
fn counts(kernel: &Kernel, tensors: usize, constants: usize) -> Error {
    Error::invalid(format!(
        "{}: takes {} tensors and {} constants, got {tensors} and {constants}",
        kernel.name, kernel.tensors, kernel.constants
    ))
}

#[cold]
fn constant(kernel: &Kernel, name: &str, kind: GenericKind, value: i32) -> Error {
    match kind {
        GenericKind::Free => {
            Error::new(Code::Unsupported, format!("{}: {name}: unknown dtype code {value}", kernel.name))
        }
        _ => Error::invalid(format!("{}: {name}: a bool constant is 0 or 1, got {value}", kernel.name)),
    }
}

#[cold]
fn wrong_type(kernel: &Kernel, param: &Param, got: DType, expected: u8) -> Error {
    let expected = DType::from_code(i32::from(expected)).map_or("?", DType::name);
    Error::new(Code::Unsupported, format!("{}: {}: dtype {}, expected {expected}", kernel.name, param.name, got.name()))
}

#[cold]
fn disagree(kernel: &Kernel, param: &Param, got: DType, first: DType, by: &str) -> Error {
    Error::new(
        Code::Unsupported,
        format!(
            "{}: {}: dtype {}, but {by} has {}: they must agree",
            kernel.name,
            param.name,
            got.name(),
            first.name()
        ),
    )
}

#[cold]
fn wrong_rank(kernel: &Kernel, param: &Param, desc: &TensorDesc, rank: usize) -> Error {
    Error::invalid(format!("{}: {}: rank {}, expected {rank}", kernel.name, param.name, desc.ndim))
}

#[cold]
fn out_of_range(kernel: &Kernel, param: &Param, desc: &TensorDesc, axis: usize) -> Error {
    let fits = |v: i64| (0..1 << 31).contains(&v);
    let (what, value) =
        if fits(desc.shape[axis]) { ("stride", desc.strides[axis]) } else { ("extent", desc.shape[axis]) };
    Error::invalid(format!(
        "{}: {}: {what} {value} of axis {axis} is outside 0..2^31: tile indices are 32-bit",
        kernel.name, param.name
    ))
}
