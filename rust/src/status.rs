// SPDX-License-Identifier: MIT
//! Return codes, the guard around every export, and this thread's last error text.

use crate::contract;
use std::any::Any;
use std::cell::{Cell, RefCell};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;

pub use crate::contract::{NOT_LOADED, OK};

/// Negative codes of the C contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(i32)]
pub enum Code {
    Unsupported = contract::UNSUPPORTED,
    Launch = contract::LAUNCH,
    Device = contract::DEVICE,
    Null = contract::NULL,
    Invalid = contract::INVALID,
    Panic = contract::PANIC,
}

/// A code and the text that `cutile_last_error` will return.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    pub code: Code,
    pub text: String,
}

impl Error {
    #[cold]
    pub fn new(code: Code, text: impl Into<String>) -> Error {
        Error { code, text: text.into() }
    }

    #[cold]
    pub fn invalid(text: impl Into<String>) -> Error {
        Error::new(Code::Invalid, text)
    }
}

pub type Result<T> = std::result::Result<T, Error>;

thread_local! {
    static LAST: RefCell<String> = const { RefCell::new(String::new()) };
    /// Inside an export: the hook keeps a panic's text instead of printing it.
    static GUARDED: Cell<bool> = const { Cell::new(false) };
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// What an export may return when it fails.
pub trait Returned {
    fn failed(code: Code) -> Self;
}

impl Returned for i32 {
    fn failed(code: Code) -> Self {
        code as i32
    }
}

impl Returned for i64 {
    fn failed(code: Code) -> Self {
        i64::from(code as i32)
    }
}

impl Returned for *const std::ffi::c_char {
    fn failed(_: Code) -> Self {
        std::ptr::null()
    }
}

impl Returned for () {
    fn failed(_: Code) -> Self {}
}

/// Runs an export's body: no panic leaves it, an error becomes its code and this thread's text.
#[inline]
pub fn guard<T: Returned>(body: impl FnOnce() -> Result<T>) -> T {
    keep_panic_texts();
    let outer = GUARDED.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(body));
    GUARDED.set(outer);
    match outcome {
        Ok(Ok(value)) => value,
        Ok(Err(error)) => fail(error),
        Err(payload) => fail(Error::new(Code::Panic, panic_text(payload.as_ref()))),
    }
}

/// Runs `body` on a thread of its own kind (the front end's) with panics kept for `panic_text`.
pub fn guarded<T>(body: impl FnOnce() -> T) -> std::result::Result<T, String> {
    keep_panic_texts();
    let outer = GUARDED.replace(true);
    let outcome = catch_unwind(AssertUnwindSafe(body));
    GUARDED.set(outer);
    outcome.map_err(|payload| panic_text(payload.as_ref()))
}

#[cold]
fn fail<T: Returned>(error: Error) -> T {
    let code = error.code;
    LAST.with(|last| *last.borrow_mut() = error.text);
    T::failed(code)
}

/// Writes this thread's last error text into `buffer` and returns its full length.
pub fn last_error(buffer: &mut [u8]) -> usize {
    LAST.with(|last| copy_text(&last.borrow(), buffer))
}

/// Copies as much as fits with a final NUL; never cuts a character in two.
pub fn copy_text(text: &str, buffer: &mut [u8]) -> usize {
    if let Some(room) = buffer.len().checked_sub(1) {
        let n = text.floor_char_boundary_compat(room);
        buffer[..n].copy_from_slice(&text.as_bytes()[..n]);
        buffer[n] = 0;
    }
    text.len()
}

trait CharBoundary {
    fn floor_char_boundary_compat(&self, at: usize) -> usize;
}

impl CharBoundary for str {
    fn floor_char_boundary_compat(&self, at: usize) -> usize {
        (0..=at.min(self.len())).rev().find(|&i| self.is_char_boundary(i)).unwrap_or(0)
    }
}

fn panic_text(payload: &(dyn Any + Send)) -> String {
    let kept = PANIC.take();
    if !kept.is_empty() {
        return kept;
    }
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("panic without a text").to_string()
}

/// The standard library's panic hook of this shared object: a guarded panic is an error text with its place, not
/// a message on the host program's stderr. Panics elsewhere keep the previous hook.
fn keep_panic_texts() {
    static INSTALL: Once = Once::new();
    INSTALL.call_once(|| {
        let previous = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            if !GUARDED.get() {
                return previous(info);
            }
            let payload = info.payload();
            let text = payload.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("panic");
            let at = info.location().map(|l| format!(" (at {}:{})", l.file(), l.line())).unwrap_or_default();
            PANIC.with(|kept| *kept.borrow_mut() = format!("{text}{at}"));
        }));
    });
}
