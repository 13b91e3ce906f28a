// SPDX-License-Identifier: MIT
//! Specialization key -> Tile IR bytecode, without a GPU, a driver or tileiras.
//!
//! The result is a function of (key, arch) alone: the version is pinned, because an unpinned one depends on which
//! tileiras is found; the code options are spelled out, because their default follows the cargo profile. The
//! compiler lets CUTILE_JIT_* variables override those options, but in the front end they only place bounds
//! checks, and a kernel with any check left is refused: they cannot alter the bytes (a test sets them).

use crate::kernel::{Kernel, Kind};
use crate::passes;
use crate::specialize::{Decoded, Key, TensorBits, decode};
use crate::status::{Code, Error, Result, guarded};
use cutile_compiler::compile_api::KernelCompiler;
use cutile_compiler::cuda_tile_runtime_utils::serialize_tile_ir_bytecode_for_version;
use cutile_compiler::error::JITError;
use cutile_compiler::hints::{CompileOptions, DebugInfoLevel};
use cutile_compiler::specialization::{DivHint, SpecializationBits};
use cutile_ir::bytecode::BytecodeVersion;

/// The front end recurses deeply; the caller's thread may be any.
const STACK: usize = 64 << 20;

/// Bytecode of one specialization for `arch` ("sm_90").
pub fn bytecode(kernel: &'static Kernel, key: &Key, arch: &str) -> Result<Vec<u8>> {
    check_arch(arch)?;
    let failed = |text: String| Error::new(Code::Launch, format!("{}: {text}", kernel.name));
    let (decoded, arch) = (decode(kernel, key), arch.to_string());
    let thread = std::thread::Builder::new().name("cutile-frontend".into()).stack_size(STACK);
    let thread = thread.spawn(move || guarded(|| compile(kernel, &decoded, &arch)));
    let thread = thread.map_err(|e| failed(format!("cannot start the front end's thread: {e}")))?;
    match thread.join() {
        Ok(Ok(Ok(bytes))) => Ok(bytes),
        Ok(Ok(Err(e))) => Err(failed(e.to_string())),
        Ok(Err(panic)) => Err(Error::new(Code::Panic, format!("{}: the front end panicked: {panic}", kernel.name))),
        Err(_) => Err(Error::new(Code::Panic, format!("{}: the front end's thread died", kernel.name))),
    }
}

fn check_arch(arch: &str) -> Result<()> {
    let digits = arch.strip_prefix("sm_").unwrap_or_default();
    if (2..=3).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit()) {
        return Ok(());
    }
    Err(Error::invalid(format!("arch {arch:?} is not of the form sm_90")))
}

fn compile(kernel: &'static Kernel, decoded: &Decoded, arch: &str) -> std::result::Result<Vec<u8>, JITError> {
    let generics: Vec<String> = decoded.generics.iter().map(|(_, value)| value.clone()).collect();
    let (mut strides, mut specs, mut scalars) = (vec![], vec![], vec![]);
    for (param, bits) in &decoded.tensors {
        match param.kind {
            Kind::Tensor { rank, .. } => {
                strides.push((param.name, static_strides(rank, bits)));
                specs.push((param.name, specialization_bits(rank, bits)));
            }
            Kind::Flattened { rank, .. } => flattened(param.name, rank, bits, &mut scalars),
            Kind::Pointer { .. } => scalars.push((param.name.into(), hint(bits.pointer_16, 16))),
            Kind::Scalar => {}
        }
    }
    let strides: Vec<(&str, &[i32])> = strides.iter().map(|(name, s)| (*name, s.as_slice())).collect();
    let scalars: Vec<(&str, DivHint)> =
        scalars.iter().map(|(name, hint): &(String, DivHint)| (name.as_str(), *hint)).collect();
    let artifacts = KernelCompiler::new(kernel.ast, kernel.module, kernel.name)
        .generics(generics)
        .strides(&strides)
        .spec_args(&specs)
        .scalar_hints(&scalars)
        .options(options(decoded))
        .target(arch)
        .bytecode_version(BytecodeVersion::V13_4)
        .compile()?;
    // A launch check would have to run before every launch, and an in-kernel one costs registers.
    let (launch, counts) = (artifacts.launch_checks().len(), artifacts.check_counts());
    if launch > 0 || counts.hoisted + counts.in_place > 0 {
        let text = format!("{launch} launch checks are left, {counts:?}: use unchecked accesses");
        return Err(JITError::Generic(text));
    }
    if kernel.passes.is_empty() {
        return artifacts.bytecode();
    }
    let mut module = artifacts.into_module();
    passes::apply(&mut module, kernel.passes).map_err(JITError::Generic)?;
    let (bytes, ..) = serialize_tile_ir_bytecode_for_version(&module, BytecodeVersion::V13_4)?;
    Ok(bytes)
}

/// The facts of a `&Tensor`, attached to the scalars it was flattened to. A stride of 1 needs none.
fn flattened(name: &str, rank: usize, bits: &TensorBits, scalars: &mut Vec<(String, DivHint)>) {
    let by = bits.dtype.per_16_bytes() as i32;
    scalars.push((name.into(), hint(bits.pointer_16, 16)));
    for axis in 0..rank {
        scalars.push((format!("{name}_n{axis}"), hint(bits.extents_16[axis], 16)));
        scalars.push((format!("{name}_s{axis}"), hint(bits.strides_16[axis], by)));
    }
}

fn options(decoded: &Decoded) -> CompileOptions {
    let mut options = CompileOptions::new().debug_info(DebugInfoLevel::None).opt_level(3);
    [options.num_cta_in_cga, options.occupancy, options.num_worker_warps_per_cta] = decoded.hints;
    options
}

/// -1 = dynamic.
fn static_strides(rank: usize, bits: &TensorBits) -> Vec<i32> {
    (0..rank).map(|axis| if bits.unit_last && axis == rank - 1 { 1 } else { -1 }).collect()
}

fn hint(divisible: bool, by: i32) -> DivHint {
    DivHint { divisor: if divisible { by } else { 1 }, max: 16 }
}

fn specialization_bits(rank: usize, bits: &TensorBits) -> SpecializationBits {
    let strides = static_strides(rank, bits);
    let by = bits.dtype.per_16_bytes() as i32;
    SpecializationBits {
        shape_div: (0..rank).map(|a| hint(bits.extents_16[a], 16)).collect(),
        // The entry generator indexes the dynamic strides only.
        stride_div: (0..rank).filter(|&a| strides[a] == -1).map(|a| hint(bits.strides_16[a], by)).collect(),
        stride_one: strides.iter().map(|&s| s == 1).collect(),
        base_ptr_div: hint(bits.pointer_16, 16),
        elements_disjoint: true,
    }
}
