//! The memory of a memtable: one zeroed region, allocated from the front, reused or freed as a whole.
//!
//! The only unsafe code of the engine, except for an instruction in `prefetch`. It is sound because a byte range is written by
//! the one writer before its offset is published with a `Release` store, is not written again while anything else refers to the
//! arena, and is read only at offsets that came from an `Acquire` load of such a store. The words that do change later are only
//! ever accessed as atomics. Checked by Miri: `cargo +nightly miri test -p ladoga-storage --lib memtable::tests`.
#![expect(
    unsafe_code,
    reason = "readers share bytes with a writer that is still filling the rest of the region"
)]

use std::alloc::{Layout, alloc_zeroed, dealloc, handle_alloc_error};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::prefetch::prefetch_bytes;

const ALIGN: usize = 8;

pub(super) struct Arena {
    base: NonNull<u8>,
    capacity: usize,
    used: AtomicUsize,
}

// SAFETY: the region is owned, and shared only as the module's documentation describes.
unsafe impl Send for Arena {}
// SAFETY: as above; `used` is atomic.
unsafe impl Sync for Arena {}

impl Arena {
    pub(super) fn new(capacity: usize) -> Arena {
        assert!(capacity >= ALIGN && u32::try_from(capacity).is_ok(), "offsets are 32 bits wide");
        let layout = Self::layout(capacity);
        // SAFETY: the layout has a size that is not zero.
        let Some(base) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
        // Offset 0 means "none", so nothing is put there.
        Arena { base, capacity, used: AtomicUsize::new(ALIGN) }
    }

    fn layout(capacity: usize) -> Layout {
        Layout::from_size_align(capacity, ALIGN).expect("a capacity of 32 bits is a layout")
    }

    /// Forgets everything. The bytes stay: only what was allocated and filled since is ever read.
    pub(super) fn clear(&mut self) {
        *self.used.get_mut() = ALIGN;
    }

    pub(super) const fn capacity(&self) -> usize {
        self.capacity
    }

    pub(super) fn used(&self) -> usize {
        self.used.load(Ordering::Relaxed)
    }

    pub(super) const fn room(&self, used: usize) -> usize {
        self.capacity - used
    }

    /// Takes `bytes` bytes, aligned to eight. Only the writer calls this, so a load and a store are enough.
    pub(super) fn allocate(&self, bytes: usize) -> Option<u32> {
        let used = self.used();
        if bytes > self.room(used) {
            return None;
        }
        self.used.store((used + bytes).next_multiple_of(ALIGN).min(self.capacity), Ordering::Relaxed);
        Some(used as u32)
    }

    /// Writes into bytes that are not published yet.
    ///
    /// # Safety
    /// Only the writer, inside of an allocation whose offset no reader can have.
    #[inline]
    pub(super) unsafe fn fill(&self, offset: u32, bytes: &[u8]) {
        debug_assert!(offset as usize + bytes.len() <= self.capacity);
        // SAFETY: in bounds and not shared, as the caller promises.
        unsafe {
            self.base.as_ptr().add(offset as usize).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
    }

    /// Published bytes.
    ///
    /// # Safety
    /// The range lies in an allocation that was filled and published, and holds no word of [`Arena::word`].
    #[inline]
    pub(super) unsafe fn bytes(&self, offset: u32, length: usize) -> &[u8] {
        debug_assert!(offset as usize + length <= self.capacity);
        // SAFETY: in bounds, initialized (the region was zeroed once) and not written any more.
        unsafe { std::slice::from_raw_parts(self.base.as_ptr().add(offset as usize), length) }
    }

    /// Prefetches these bytes, published or not.
    #[inline]
    pub(super) fn prefetch(&self, offset: u32, length: usize) {
        prefetch_bytes(self.base.addr().get() + offset as usize, length);
    }

    /// A word that is only ever touched as an atomic.
    ///
    /// # Safety
    /// `offset` is a multiple of four, inside of an allocation, and never part of [`Arena::fill`] once published.
    #[inline]
    pub(super) unsafe fn word(&self, offset: u32) -> &AtomicU32 {
        debug_assert!(offset.is_multiple_of(4) && offset as usize + 4 <= self.capacity);
        // SAFETY: in bounds, aligned, and accessed atomically only.
        unsafe { AtomicU32::from_ptr(self.base.as_ptr().add(offset as usize).cast()) }
    }
}

/// Zeroed words, as the system gives them: nothing is touched before it is used.
pub(super) fn zeroed_words(count: usize) -> Box<[AtomicU32]> {
    // SAFETY: all bytes zero is a valid AtomicU32.
    unsafe { Box::new_zeroed_slice(count).assume_init() }
}

impl Drop for Arena {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, and nobody borrows from it any more.
        unsafe { dealloc(self.base.as_ptr(), Self::layout(self.capacity)) }
    }
}
