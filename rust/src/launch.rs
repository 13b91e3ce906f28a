// SPDX-License-Identifier: MIT
//! From a call or a plan to cuLaunchKernel. Nothing here allocates on the way to a launch.

use crate::contract::MAX_SLOTS;
use crate::driver;
use crate::kernel::{Kernel, Kind};
use crate::specialize::{self, Hints};
use crate::status::{Code, Error, NOT_LOADED, OK, Result};
use crate::table::{Spec, lock};
use crate::tensor_desc::TensorDesc;
use std::ffi::c_void;
use std::mem::MaybeUninit;
use std::sync::Mutex;

/// What a call says besides tensors, scalars and constants.
pub struct Call {
    pub grid: [i32; 3],
    pub hints: Hints,
    pub device: i32,
    pub stream: u64,
}

/// None when an axis is zero: nothing is launched then.
#[inline]
fn checked_grid(kernel: &Kernel, grid: [i32; 3]) -> Result<Option<[u32; 3]>> {
    if grid.iter().any(|&n| n < 0) || grid[1] > 65_535 || grid[2] > 65_535 {
        return Err(Error::invalid(format!("{}: grid {grid:?}: axes are 0..2^31, 0..=65535, 0..=65535", kernel.name)));
    }
    Ok((!grid.contains(&0)).then(|| grid.map(|n| n as u32)))
}

/// The flattened parameters of one launch.
struct Slots {
    values: [MaybeUninit<u64>; MAX_SLOTS],
    len: usize,
}

impl Slots {
    /// `descs` and `scalars` fit the kernel and were checked by `specialize::key`; build.rs bounds the sum.
    ///
    /// # Safety
    /// `descs` point to live descriptors.
    #[inline]
    unsafe fn fill(kernel: &Kernel, descs: &[*const TensorDesc], scalars: &[u64]) -> Slots {
        let mut slots = Slots { values: [const { MaybeUninit::uninit() }; MAX_SLOTS], len: 0 };
        let (mut descs, mut scalars) = (descs.iter(), scalars.iter());
        for param in kernel.params {
            match param.kind {
                Kind::Scalar => slots.push(*scalars.next().expect("as many scalars as the kernel takes")),
                Kind::Pointer { .. } | Kind::Tensor { .. } | Kind::Flattened { .. } => {
                    let desc = *descs.next().expect("as many descriptors as the kernel takes");
                    // SAFETY: live, says the caller.
                    let desc = unsafe { &*desc };
                    slots.push(desc.ptr);
                    if let Kind::Tensor { rank, .. } | Kind::Flattened { rank, .. } = param.kind {
                        desc.shape[..rank].iter().for_each(|&n| slots.push(u64::from(n as u32)));
                        desc.strides[..rank].iter().for_each(|&n| slots.push(u64::from(n as u32)));
                    }
                }
            }
        }
        slots
    }

    #[inline]
    fn push(&mut self, value: u64) {
        self.values[self.len].write(value);
        self.len += 1;
    }

    fn written(&self) -> &[u64] {
        // SAFETY: `push` wrote the first `len` values; MaybeUninit<u64> has u64's layout.
        unsafe { std::slice::from_raw_parts(self.values.as_ptr().cast(), self.len) }
    }
}

/// The addresses that cuLaunchKernel takes; it reads through them and keeps none.
struct Params([MaybeUninit<*mut c_void>; MAX_SLOTS]);

impl Params {
    #[inline]
    fn of(values: &[u64]) -> Params {
        let mut params = Params([const { MaybeUninit::uninit() }; MAX_SLOTS]);
        for (param, value) in params.0.iter_mut().zip(values) {
            param.write(std::ptr::from_ref(value).cast_mut().cast());
        }
        params
    }

    #[inline]
    fn set(&mut self, slot: u8, value: &u64) {
        self.0[slot as usize].write(std::ptr::from_ref(value).cast_mut().cast());
    }

    /// The first `len` were written by `of`.
    #[inline]
    unsafe fn written(&mut self, len: usize) -> &mut [*mut c_void] {
        // SAFETY: the caller's promise; MaybeUninit<*mut c_void> has the pointer's layout.
        unsafe { std::slice::from_raw_parts_mut(self.0.as_mut_ptr().cast(), len) }
    }
}

/// The typed exports' body: specialize, find the function, launch.
///
/// # Safety
/// Each pointer in `descs` is null or points to a live descriptor; the memory described is the kernel's to use.
#[inline]
pub unsafe fn call(
    kernel: &'static Kernel,
    descs: &[*const TensorDesc],
    scalars: &[u64],
    constants: &[i32],
    call: &Call,
) -> Result<i32> {
    // SAFETY: as the caller promises.
    let key = unsafe { specialize::key(kernel, descs, constants, &call.hints)? };
    let device = driver::device_index(call.device)?;
    let Some(grid) = checked_grid(kernel, call.grid)? else { return Ok(OK) };
    let function = kernel.specs.find(&key).map_or(0, |spec| spec.function(device));
    if function == 0 {
        return Ok(NOT_LOADED);
    }
    // SAFETY: `key` found all descriptors live and of the right count.
    let slots = unsafe { Slots::fill(kernel, descs, scalars) };
    let mut params = Params::of(slots.written());
    // SAFETY: the function was assembled from this kernel's bytecode for this key; `of` wrote `slots.len`.
    unsafe {
        let params = params.written(slots.len);
        driver::launch(driver::known_context(device), function, grid, call.stream, params)
    }
}

/// Loads `cubin` for `spec` on `device` unless it already is.
pub fn load(spec: &Spec, device: i32, cubin: &[u8]) -> Result<i32> {
    static LOADING: Mutex<()> = Mutex::new(());
    let device = driver::device_index(device)?;
    let _one_at_a_time = lock(&LOADING);
    if spec.function(device) == 0 {
        spec.set_function(device, driver::load(device, cubin, spec.kernel.entry)?);
    }
    Ok(OK)
}

/// An immutable launch. Any thread may run it: a run patches addresses on its own stack only.
pub struct Plan {
    kernel: &'static Kernel,
    context: u64,
    function: u64,
    /// None: a grid axis is zero, nothing is launched.
    grid: Option<[u32; 3]>,
    /// Bit i: tensor i's pointer is 16-byte aligned. build.rs bounds the tensors of a kernel below 64.
    aligned: u64,
    values: Box<[u64]>,
    pointer_slots: Box<[u8]>,
    scalar_slots: Box<[u8]>,
}

impl Plan {
    /// None when the specialization is not loaded on the device.
    ///
    /// # Safety
    /// Each pointer in `descs` is null or points to a live descriptor.
    pub unsafe fn new(
        kernel: &'static Kernel,
        descs: &[*const TensorDesc],
        scalars: &[u64],
        constants: &[i32],
        call: &Call,
    ) -> Result<Option<Plan>> {
        // SAFETY: as the caller promises.
        let key = unsafe { specialize::key(kernel, descs, constants, &call.hints)? };
        if scalars.len() != kernel.scalars {
            return Err(wrong_count(kernel, "scalars", kernel.scalars, scalars.len()));
        }
        let device = driver::device_index(call.device)?;
        let grid = checked_grid(kernel, call.grid)?;
        let function = kernel.specs.find(&key).map_or(0, |spec| spec.function(device));
        if function == 0 && grid.is_some() {
            return Ok(None);
        }
        // SAFETY: `key` found all descriptors live and of the right count.
        let slots = unsafe { Slots::fill(kernel, descs, scalars) };
        let (mut pointer_slots, mut scalar_slots, mut at) = (vec![], vec![], 0u8);
        for param in kernel.params {
            let (list, slots) = match param.kind {
                Kind::Tensor { rank, .. } | Kind::Flattened { rank, .. } => (&mut pointer_slots, 1 + 2 * rank as u8),
                Kind::Pointer { .. } => (&mut pointer_slots, 1),
                Kind::Scalar => (&mut scalar_slots, 1),
            };
            list.push(at);
            at += slots;
        }
        let values: Box<[u64]> = slots.written().into();
        let pointers: Vec<u64> = pointer_slots.iter().map(|&slot| values[slot as usize]).collect();
        Ok(Some(Plan {
            kernel,
            context: driver::known_context(device),
            function,
            grid,
            aligned: alignment(&pointers),
            values,
            pointer_slots: pointer_slots.into(),
            scalar_slots: scalar_slots.into(),
        }))
    }

    /// How many tensors and raw pointers a run brings.
    #[inline]
    pub fn tensors(&self) -> usize {
        self.pointer_slots.len()
    }

    /// # Safety
    /// The addresses are memory with the plan's shapes and strides on its device; `stream` is a stream of the
    /// device's primary context or 0.
    #[inline]
    pub unsafe fn run(&self, stream: u64, pointers: &[u64], scalars: Option<&[u64]>) -> Result<i32> {
        if pointers.len() != self.pointer_slots.len() {
            return Err(wrong_count(self.kernel, "pointers", self.pointer_slots.len(), pointers.len()));
        }
        let mut params = Params::of(&self.values);
        if let Some(scalars) = scalars {
            if scalars.len() != self.scalar_slots.len() {
                return Err(wrong_count(self.kernel, "scalars", self.scalar_slots.len(), scalars.len()));
            }
            self.scalar_slots.iter().zip(scalars).for_each(|(&slot, value)| params.set(slot, value));
        }
        let Some(grid) = self.grid else { return Ok(OK) };
        if alignment(pointers) != self.aligned {
            return Ok(NOT_LOADED);
        }
        self.pointer_slots.iter().zip(pointers).for_each(|(&slot, value)| params.set(slot, value));
        // SAFETY: `of` wrote all values' addresses; the function takes this kernel's parameters; the rest is the
        // caller's promise.
        unsafe { driver::launch(self.context, self.function, grid, stream, params.written(self.values.len())) }
    }
}

#[inline]
fn alignment(pointers: &[u64]) -> u64 {
    pointers.iter().enumerate().fold(0, |bits, (i, p)| bits | u64::from(p & 15 == 0) << i)
}

#[cold]
fn wrong_count(kernel: &Kernel, what: &str, takes: usize, got: usize) -> Error {
    Error::new(Code::Invalid, format!("{}: takes {takes} {what}, got {got}", kernel.name))
}
