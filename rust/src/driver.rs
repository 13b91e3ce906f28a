// SPDX-License-Identifier: MIT
//! The CUDA driver calls this library makes. libcuda.so.1 is opened at the first of them, never at load time.

use crate::image;
use crate::status::{Code, Error, OK, Result};
use crate::table::MAX_DEVICES;
use cuda_core::{DriverError, sys};
use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

/// Primary contexts by ordinal, retained once and kept: torch holds the same ones. 0 while not retained.
static CONTEXTS: [AtomicU64; MAX_DEVICES] = [const { AtomicU64::new(0) }; MAX_DEVICES];

/// A device ordinal that has slots.
pub fn device_index(device: i32) -> Result<usize> {
    let index = usize::try_from(device).ok().filter(|&d| d < MAX_DEVICES);
    index.ok_or_else(|| Error::new(Code::Device, format!("device {device} is outside 0..{MAX_DEVICES}")))
}

#[cold]
fn error(what: &str, result: sys::CUresult) -> Error {
    if let Some(load) = sys::cuda_driver_load_error() {
        return Error::new(
            Code::Device,
            format!(
                "{what}: the CUDA driver cannot be loaded ({load}): a GPU host with the NVIDIA driver is needed to load and launch kernels"
            ),
        );
    }
    let text =
        |s: std::result::Result<&CStr, DriverError>| s.map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let e = DriverError(result);
    let code = match result {
        // not initialized, deinitialized, no device, invalid device, invalid context, context destroyed, invalid handle
        3 | 4 | 100 | 101 | 201 | 709 | 400 => Code::Device,
        _ => Code::Launch,
    };
    Error::new(code, format!("{what}: CUDA error {result} {}: {}", text(e.error_name()), text(e.error_string())))
}

fn check(what: &str, result: sys::CUresult) -> Result<()> {
    if result == 0 { Ok(()) } else { Err(error(what, result)) }
}

/// The primary context of a device that something was loaded on; 0 otherwise.
#[inline]
pub fn known_context(device: usize) -> u64 {
    CONTEXTS[device].load(Ordering::Acquire)
}

/// The device's primary context, retained at the first call.
fn primary_context(device: usize) -> Result<u64> {
    let known = known_context(device);
    if known != 0 {
        return Ok(known);
    }
    let (mut handle, mut context) = (0, null_mut());
    // SAFETY: out-pointers to locals; cuInit may be called any number of times.
    unsafe {
        check("cuInit", sys::cuInit(0))?;
        check(&format!("cuDeviceGet({device})"), sys::cuDeviceGet(&mut handle, device as i32))?;
        check("cuDevicePrimaryCtxRetain", sys::cuDevicePrimaryCtxRetain(&mut context, handle))?;
    }
    // Two threads may both retain: the same context, one count more, never released.
    CONTEXTS[device].store(context as u64, Ordering::Release);
    Ok(context as u64)
}

/// Runs `body` with `context` current; the caller's context is current again afterwards.
#[inline]
fn with_context<T>(context: u64, body: impl FnOnce() -> Result<T>) -> Result<T> {
    let mut current = null_mut();
    // SAFETY: out-pointer to a local.
    check("cuCtxGetCurrent", unsafe { sys::cuCtxGetCurrent(&mut current) })?;
    if current as u64 == context {
        return body();
    }
    // SAFETY: a retained primary context.
    check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(context as sys::CUcontext) })?;
    let result = body();
    // SAFETY: the context that was current, null included.
    let restored = check("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(current) });
    result.and_then(|value| restored.map(|()| value))
}

/// Loads a cubin and returns its function, loaded into the context and not only looked up: under a stream
/// capture the driver could not load it any more.
pub fn load(device: usize, bytes: &[u8], symbol: &CStr) -> Result<u64> {
    image::check(bytes)?;
    let context = primary_context(device)?;
    with_context(context, || {
        let (mut module, mut function) = (null_mut(), null_mut());
        let what = || format!("cuModuleGetFunction({})", symbol.to_string_lossy());
        // SAFETY: a complete ELF image (checked above); out-pointers to locals; the module is never unloaded.
        unsafe {
            check("cuModuleLoadData", sys::cuModuleLoadData(&mut module, bytes.as_ptr().cast()))?;
            check(&what(), sys::cuModuleGetFunction(&mut function, module, symbol.as_ptr()))?;
            check("cuFuncLoad", sys::cuFuncLoad(function))?;
        }
        Ok(function as u64)
    })
}

/// One launch: blocks of one tile, no dynamic shared memory.
///
/// # Safety
/// `function` belongs to `context` and takes exactly the parameters that `params` points to; `stream` is a
/// stream of that context or 0.
#[inline]
pub unsafe fn launch(
    context: u64,
    function: u64,
    grid: [u32; 3],
    stream: u64,
    params: &mut [*mut c_void],
) -> Result<i32> {
    #[cfg(test)]
    if function == crate::tests::fake::FUNCTION {
        crate::tests::fake::launched(grid, stream, params);
        return Ok(OK);
    }
    with_context(context, || {
        // SAFETY: the caller's promise.
        let result = unsafe {
            sys::cuLaunchKernel(
                function as sys::CUfunction,
                grid[0],
                grid[1],
                grid[2],
                1,
                1,
                1,
                0,
                stream as sys::CUstream,
                params.as_mut_ptr(),
                null_mut(),
            )
        };
        check("cuLaunchKernel", result).map(|()| OK)
    })
}
