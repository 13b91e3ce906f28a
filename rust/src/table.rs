// SPDX-License-Identifier: MIT
//! Specializations of one kernel: read without a lock, grown under one, never removed.
//!
//! A captured CUDA graph or a plan may hold a function for the life of the process, so entries are leaked on
//! purpose. Replaced slot arrays are leaked too: they double, so together they are smaller than the last one.

use crate::kernel::Kernel;
use crate::specialize::Key;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

/// CUDA ordinals that a specialization has a slot for.
pub const MAX_DEVICES: usize = 64;

/// One interned specialization.
pub struct Spec {
    pub kernel: &'static Kernel,
    pub key: Key,
    pub token: i64,
    /// CUfunction per device, 0 while not loaded.
    functions: [AtomicU64; MAX_DEVICES],
}

impl Spec {
    /// The function on `device`, or 0. `device` is below MAX_DEVICES.
    #[inline]
    pub fn function(&self, device: usize) -> u64 {
        self.functions[device].load(Ordering::Acquire)
    }

    pub fn set_function(&self, device: usize, function: u64) {
        self.functions[device].store(function, Ordering::Release);
    }
}

struct Slots(Box<[AtomicPtr<Spec>]>);

impl Slots {
    fn new(capacity: usize) -> Slots {
        Slots((0..capacity).map(|_| AtomicPtr::new(std::ptr::null_mut())).collect())
    }

    #[inline]
    fn find(&self, key: &Key) -> Option<&'static Spec> {
        let mask = self.0.len() - 1;
        let mut at = key.hash() as usize & mask;
        loop {
            let spec = self.0[at].load(Ordering::Acquire);
            if spec.is_null() {
                return None;
            }
            // SAFETY: a non-null slot holds a leaked, immutable Spec (its functions are atomics).
            let spec = unsafe { &*spec };
            if spec.key == *key {
                return Some(spec);
            }
            at = (at + 1) & mask;
        }
    }

    /// The caller holds the writers' lock and has left room.
    fn put(&self, spec: &'static Spec) {
        let mask = self.0.len() - 1;
        let mut at = spec.key.hash() as usize & mask;
        while !self.0[at].load(Ordering::Relaxed).is_null() {
            at = (at + 1) & mask;
        }
        self.0[at].store(std::ptr::from_ref(spec).cast_mut(), Ordering::Release);
    }
}

/// Every interned specialization of the library; the token is the index.
static TOKENS: RwLock<Vec<&'static Spec>> = RwLock::new(Vec::new());

pub struct Table {
    slots: AtomicPtr<Slots>,
    /// Entries in the slots; also the writers' lock.
    used: Mutex<usize>,
}

impl Default for Table {
    fn default() -> Self {
        Table::new()
    }
}

impl Table {
    pub const fn new() -> Table {
        Table { slots: AtomicPtr::new(std::ptr::null_mut()), used: Mutex::new(0) }
    }

    #[inline]
    fn slots(&self) -> Option<&'static Slots> {
        // SAFETY: null, or leaked by `intern` and complete before it was published.
        unsafe { self.slots.load(Ordering::Acquire).as_ref() }
    }

    /// Lock-free.
    #[inline]
    pub fn find(&self, key: &Key) -> Option<&'static Spec> {
        self.slots()?.find(key)
    }

    /// The specialization of `key`, created when it is new.
    pub fn intern(&self, kernel: &'static Kernel, key: &Key) -> &'static Spec {
        let mut used = lock(&self.used);
        if let Some(spec) = self.find(key) {
            return spec;
        }
        let mut tokens = TOKENS.write().unwrap_or_else(PoisonError::into_inner);
        let spec: &'static Spec = Box::leak(Box::new(Spec {
            kernel,
            key: *key,
            token: tokens.len() as i64,
            functions: [const { AtomicU64::new(0) }; MAX_DEVICES],
        }));
        let slots = self.with_room(*used);
        slots.put(spec);
        tokens.push(spec);
        *used += 1;
        spec
    }

    /// Slots with at least half of them free after one more entry.
    fn with_room(&self, used: usize) -> &'static Slots {
        let old = self.slots();
        if let Some(old) = old
            && (used + 1) * 2 <= old.0.len()
        {
            return old;
        }
        let new: &'static Slots = Box::leak(Box::new(Slots::new(old.map_or(16, |o| o.0.len() * 2))));
        for slot in old.map(|o| &o.0[..]).unwrap_or_default() {
            // SAFETY: as in `find`.
            if let Some(spec) = unsafe { slot.load(Ordering::Relaxed).as_ref() } {
                new.put(spec);
            }
        }
        self.slots.store(std::ptr::from_ref(new).cast_mut(), Ordering::Release);
        new
    }
}

/// The specialization that `cutile_spec` gave this token for.
pub fn by_token(token: i64) -> Option<&'static Spec> {
    let tokens = TOKENS.read().unwrap_or_else(PoisonError::into_inner);
    usize::try_from(token).ok().and_then(|t| tokens.get(t).copied())
}

/// A lock whose data stays valid when a holder panicked.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
