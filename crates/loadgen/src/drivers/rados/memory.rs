//! Keeps memory at hand for the copies that librados makes of what is written and read.
//!
//! It allocates each copy in one thread, that of the load for what is written, and frees it in
//! another. Left to itself, glibc gives such memory back to the kernel when it is large, and every
//! page of the next copy faults again: with writes of 4 MiB that was a good part of the client's
//! time.

use crate::transport::huge;

/// Smaller copies share pages that stay anyway.
const LARGE_BYTES: usize = 256 << 10;

/// The most that one thread asks huge pages for; memory that is not used costs nothing.
const RESERVED_BYTES_MAX: usize = 1 << 30;

/// Has the allocator keep what is freed, for the life of the process, if copies will be large.
pub(super) fn keep_freed(largest: usize) {
    #[cfg(target_env = "gnu")]
    if largest >= LARGE_BYTES {
        for (parameter, bytes) in [
            // Above this, each buffer is a mapping of its own that ends with it.
            (libc::M_MMAP_THRESHOLD, 32 << 20),
            (libc::M_TRIM_THRESHOLD, i32::MAX),
            // A heap of a thread other than the first ends when it is empty, unless this much may
            // be unused; it is as large as a heap.
            (libc::M_TOP_PAD, 64 << 20),
        ] {
            // SAFETY: takes numbers only.
            unsafe { libc::mallopt(parameter, bytes) };
        }
    }
}

/// Asks for huge pages where the allocator will put `count` copies of this thread's.
pub(super) fn reserve(count: usize, bytes: usize) {
    if bytes < LARGE_BYTES {
        return;
    }
    let count = count.min(RESERVED_BYTES_MAX / bytes).max(1);
    // Freed at the end, all together: until then none takes the place of another.
    let copies: Vec<Vec<u8>> = (0..count).map(|_| Vec::with_capacity(bytes)).collect();
    for copy in &copies {
        huge::advise(copy.as_ptr(), copy.capacity());
    }
}
