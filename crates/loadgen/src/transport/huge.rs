//! Huge pages for large buffers: one page fault and one TLB entry per 2 MiB instead of per 4 KiB.

/// Size of a huge page on x86-64 and usually on arm64.
pub(crate) const PAGE_BYTES: usize = 2 << 20;

/// Requests huge pages for the whole ones in this memory. Has no effect on a kernel without them;
/// the content of the memory stays.
pub(crate) fn advise(memory: *const u8, bytes: usize) {
    let start = memory.addr().next_multiple_of(PAGE_BYTES);
    let end = (memory.addr() + bytes) / PAGE_BYTES * PAGE_BYTES;
    if end > start {
        let place = memory.with_addr(start).cast_mut().cast();
        // SAFETY: the advice does not change the content of memory, and for an unmapped address the
        // kernel only returns an error.
        unsafe { libc::madvise(place, end - start, libc::MADV_HUGEPAGE) };
    }
}

/// Returns zeroed memory, in huge pages if it is large.
pub(crate) fn zeroed(bytes: usize) -> Vec<u8> {
    let mut memory: Vec<u8> = Vec::with_capacity(bytes);
    advise(memory.as_ptr(), bytes);
    memory.resize(bytes, 0);
    memory
}
