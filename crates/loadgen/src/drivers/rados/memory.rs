//! Keeps memory for the copies that librados makes of written and read data.
//!
//! librados allocates each copy in one thread (for written data, the load thread) and frees it in
//! another. By default, glibc returns large blocks to the kernel, and every page of the next copy
//! faults again: with writes of 4 MiB, that took a considerable part of the client's time.

use crate::transport::huge;

/// Smaller copies share pages that are kept anyway.
const LARGE_BYTES: usize = 256 << 10;

/// Maximum memory for which one thread requests huge pages; unused memory costs nothing.
const RESERVED_BYTES_MAX: usize = 1 << 30;

/// Makes the allocator keep freed memory, for the lifetime of the process, if copies will be large.
pub(super) fn keep_freed(largest: usize) {
    #[cfg(target_env = "gnu")]
    if largest >= LARGE_BYTES {
        for (parameter, bytes) in [
            // Above this size, each buffer is a separate mapping that is unmapped when it is freed.
            (libc::M_MMAP_THRESHOLD, 32 << 20),
            (libc::M_TRIM_THRESHOLD, i32::MAX),
            // The heap of a thread other than the first is unmapped when it is empty, unless this
            // much may stay unused; the value is the size of a heap.
            (libc::M_TOP_PAD, 64 << 20),
        ] {
            // SAFETY: takes numbers only.
            unsafe { libc::mallopt(parameter, bytes) };
        }
    }
}

/// Requests huge pages for the memory that the allocator will use for `count` copies of this
/// thread.
pub(super) fn reserve(count: usize, bytes: usize) {
    if bytes < LARGE_BYTES {
        return;
    }
    let count = count.min(RESERVED_BYTES_MAX / bytes).max(1);
    // All freed at the end: until then, none reuses the memory of another.
    let copies: Vec<Vec<u8>> = (0..count).map(|_| Vec::with_capacity(bytes)).collect();
    for copy in &copies {
        huge::advise(copy.as_ptr(), copy.capacity());
    }
}
