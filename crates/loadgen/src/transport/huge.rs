//! Huge pages for large buffers: a page fault and a place in the processor's table for 2 MiB each,
//! not for every 4 KiB.

/// What x86-64 and the usual arm64 have.
pub(crate) const PAGE_BYTES: usize = 2 << 20;

/// Asks for huge pages where whole ones lie in this memory. A kernel that has none leaves it as it
/// is; what is in the memory stays.
pub(crate) fn advise(memory: *const u8, bytes: usize) {
    let start = memory.addr().next_multiple_of(PAGE_BYTES);
    let end = (memory.addr() + bytes) / PAGE_BYTES * PAGE_BYTES;
    if end > start {
        let place = memory.with_addr(start).cast_mut().cast();
        // SAFETY: the advice changes nothing that a program sees of its memory, and of an address
        // that is not mapped the kernel only says so.
        unsafe { libc::madvise(place, end - start, libc::MADV_HUGEPAGE) };
    }
}

/// Returns zeroed memory, in huge pages where it is large.
pub(crate) fn zeroed(bytes: usize) -> Vec<u8> {
    let mut memory: Vec<u8> = Vec::with_capacity(bytes);
    advise(memory.as_ptr(), bytes);
    memory.resize(bytes, 0);
    memory
}
