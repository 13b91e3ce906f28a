// SPDX-License-Identifier: MIT
//! In-crate tests: they need the private modules, and the kernels must live in the crate that is linked.

mod describe;
mod errors;
pub mod fake;
mod flattened;
mod frontend;
mod image;
mod key;
mod plan;
pub mod probe;
mod speed;
mod table;

pub use self::probe::PROBE;
use crate::contract::MAX_RANK;
use crate::kernel::{Elem, GenericKind, Kernel, Kind};
use crate::specialize::{Hints, Key, key};
use crate::status::Result;
use crate::tensor_desc::TensorDesc;

pub const F32: i32 = 0;
pub const F16: i32 = 1;
pub const BF16: i32 = 2;

/// A contiguous tensor at an aligned address.
pub fn dense(dtype: i32, shape: &[i64]) -> TensorDesc {
    let mut desc =
        TensorDesc { ptr: 0x10_0000, ndim: shape.len() as i32, shape: [0; MAX_RANK], strides: [0; MAX_RANK], dtype };
    let mut stride = 1;
    for axis in (0..shape.len()).rev() {
        desc.shape[axis] = shape[axis];
        desc.strides[axis] = stride;
        stride *= shape[axis];
    }
    desc
}

pub fn key_of(kernel: &Kernel, descs: &[TensorDesc], constants: &[i32], hints: &Hints) -> Result<Key> {
    let descs: Vec<*const TensorDesc> = descs.iter().map(std::ptr::from_ref).collect();
    // SAFETY: live descriptors.
    unsafe { key(kernel, &descs, constants, hints) }
}

/// The probe's key for one changed input.
pub fn probe_key(x: TensorDesc) -> Key {
    key_of(&PROBE, &[dense(x.dtype, &[64, 1024]), x], &[1024], &[0; 3]).expect("a valid call")
}

/// Descriptors of a call of any kernel, type generics bound to `dtype`.
pub fn descriptors(kernel: &Kernel, dtype: i32) -> Vec<TensorDesc> {
    let describe = |(rank, elem): (usize, Elem)| match elem {
        Elem::Generic(_) => dense(dtype, &vec![128; rank]),
        Elem::Concrete(code) => dense(code.into(), &vec![128; rank]),
    };
    let shapes = kernel.params.iter().filter_map(|p| match p.kind {
        Kind::Tensor { rank, elem } | Kind::Flattened { rank, elem } => Some((rank, elem)),
        Kind::Pointer { elem } => Some((1, elem)),
        Kind::Scalar => None,
    });
    shapes.map(describe).collect()
}

/// Constants that every entry compiles with: tiles of 64, one chunk a row, groups of 8, latencies and counts of 4, types
/// f32, all flags as given.
pub fn constants(kernel: &Kernel, flags: bool) -> Vec<i32> {
    let value = |name: &str, kind: GenericKind| match kind {
        GenericKind::Free => F32,
        GenericKind::Bool => i32::from(flags),
        _ if name.starts_with("GROUP") => 8,
        _ if name.ends_with("LATENCY") => 4, // 1 to 10
        _ if name == "CHUNKS" => 1,          // PARTS is their number times ROWS
        _ if name == "N" => 8,               // whose square is 64
        _ if matches!(name, "ROUNDS" | "SLICES") => 4,
        _ => 64,
    };
    kernel.constant_generics().map(|g| value(g.name, g.kind)).collect()
}

/// The dtypes an entry is tried with: three when a type generic is bound by its tensors, else its own.
pub fn dtypes(kernel: &Kernel) -> &'static [i32] {
    let generic = kernel.generics.iter().any(|g| matches!(g.kind, GenericKind::Bound(_)));
    if generic { &[F32, F16, BF16] } else { &[F32] }
}
