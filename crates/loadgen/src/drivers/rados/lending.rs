//! Large writes that librados sends from where they were made.
//!
//! Its C interface copies what is written. Its C++ interface does not, and what it takes for a
//! connection and for a completion are the very pointers that the C interface hands out. So it is
//! called by its symbols. Ceph puts the release in which a layout changed in their names, but
//! promises nothing; so only releases that were looked into are called that way.
//!
//! A write that failed or was given up may still be sent by librados' messenger, whenever a
//! connection comes back. What it would send must not change and must not go away, so such a
//! buffer is given away for good ([`Lent::give_away`]).

use std::cell::UnsafeCell;
use std::ffi::{CStr, c_char, c_int};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::library::{Completion, Context};
use crate::drivers::huge;
use crate::payload::{Held, ObjectId, PayloadSpec};

/// To copy less costs less than a list does.
pub(super) const LENT_BYTES_MIN: usize = 256 << 10;

/// When so much was given away in the life of this process, no new buffers are made to be lent:
/// what is in flight by then is all that can still be lost.
const GIVEN_AWAY_BYTES_MAX: usize = 1 << 30;

/// The releases whose symbols and layouts were looked into.
const RELEASES: [u32; 3] = [16, 18, 20];

/// Where a `ceph::buffer::list` lies while a write is submitted: more than the 32 bytes that it
/// needs in the releases that we know.
const LIST_BYTES: usize = 256;

/// A `ceph::buffer::list` where librados made it: it points to itself, so it never moves.
#[repr(C, align(16))]
struct List(UnsafeCell<[u8; LIST_BYTES]>);

/// A `std::string` of libstdc++ that somebody else owns: nobody frees or changes what it points to.
#[repr(C)]
struct Text {
    data: *const c_char,
    length: usize,
    /// As if it were on the heap; the last 8 bytes are then unused.
    capacity: usize,
    _unused: usize,
}

/// `librados::IoCtx` and `librados::AioCompletion`: a pointer to what the C interface calls by it.
#[repr(C)]
struct Handle<T>(T);

type Io = *const Handle<Context>;
type End = *const Handle<Completion>;

/// The functions of librados' C++ interface that we call.
pub(super) struct Lending {
    aio_write_full: unsafe extern "C" fn(Io, *const Text, End, *const List) -> c_int,
    aio_write: unsafe extern "C" fn(Io, *const Text, End, *const List, usize, u64) -> c_int,
    aio_append: unsafe extern "C" fn(Io, *const Text, End, *const List, usize) -> c_int,
    /// Returns a list, for which the caller's place comes first.
    static_from_mem: unsafe extern "C" fn(*mut List, *mut c_char, usize) -> *mut List,
    splice: unsafe extern "C" fn(*mut List, u32, u32, *mut List),
}

/// Tells whether writes of this length are lent rather than copied.
pub(super) fn is_worth_it(length: usize) -> bool {
    length >= LENT_BYTES_MIN
}

/// Returns why no build of this program for such a host lends anything, if so.
///
/// The place of a result comes first in a call on x86-64 only: on arm64 it has a register of its
/// own. Ceph is built with glibc and libstdc++.
pub(super) fn refusal_of(architecture: &str, is_glibc: bool) -> Option<String> {
    match (architecture, is_glibc) {
        ("x86_64", true) => None,
        ("x86_64", false) => Some("this loadstone was built for another C library".into()),
        _ => Some(format!("this loadstone was built for {architecture}")),
    }
}

/// Returns why this build lends nothing, if so.
pub(super) fn refusal() -> Option<String> {
    refusal_of(std::env::consts::ARCH, cfg!(target_env = "gnu"))
}

impl Lending {
    /// Looks the functions up in librados and what it was linked with; says why not if it cannot.
    pub(super) fn resolve(library: &libloading::Library) -> Result<Self, String> {
        if let Some(why) = refusal() {
            return Err(why);
        }
        // SAFETY: `const char *ceph_version_to_str()`; the text lasts as long as the library.
        let release = unsafe {
            library
                .get::<unsafe extern "C" fn() -> *const c_char>(b"_Z19ceph_version_to_strv\0")
                .map(|told| CStr::from_ptr(told()).to_string_lossy().into_owned())
        };
        check_release(release.ok().as_deref())?;
        Self::find(library)
    }

    fn find(library: &libloading::Library) -> Result<Self, String> {
        macro_rules! function {
            ($name:literal) => {
                // SAFETY: the mangled names say which arguments they take.
                *unsafe { library.get(concat!($name, "\0").as_bytes()) }
                    .map_err(|_| format!("it has no {}", $name))?
            };
        }
        Ok(Self {
            aio_write_full: function!(
                "_ZN8librados7v14_2_05IoCtx14aio_write_fullERKNSt7__cxx1112basic_stringIcSt11char_\
                 traitsIcESaIcEEEPNS0_13AioCompletionERKN4ceph6buffer7v15_2_04listE"
            ),
            aio_write: function!(
                "_ZN8librados7v14_2_05IoCtx9aio_writeERKNSt7__cxx1112basic_stringIcSt11char_\
                 traitsIcESaIcEEEPNS0_13AioCompletionERKN4ceph6buffer7v15_2_04listEmm"
            ),
            aio_append: function!(
                "_ZN8librados7v14_2_05IoCtx10aio_appendERKNSt7__cxx1112basic_stringIcSt11char_\
                 traitsIcESaIcEEEPNS0_13AioCompletionERKN4ceph6buffer7v15_2_04listEm"
            ),
            static_from_mem: function!("_ZN4ceph6buffer7v15_2_04list15static_from_memEPcm"),
            splice: function!("_ZN4ceph6buffer7v15_2_04list6spliceEjjPS2_"),
        })
    }
}

/// Refuses a release that was not looked into; `told` is such as "16.2.15".
fn check_release(told: Option<&str>) -> Result<(), String> {
    let told = told.ok_or("it does not tell its release")?;
    let release = told.split('.').next().and_then(|number| number.parse().ok());
    if release.is_some_and(|release| RELEASES.contains(&release)) {
        return Ok(());
    }
    Err(format!("it is of Ceph {told}"))
}

/// What to do with what is lent.
#[derive(Debug, Clone, Copy)]
pub(super) enum Write {
    Full,
    At(u64),
    Append,
}

/// What became of the writes of a trial in which buffers may be lent.
#[derive(Debug, Default)]
pub(super) struct Tally {
    lent: AtomicU64,
    small: AtomicU64,
    copied: AtomicU64,
    given_away: AtomicU64,
}

impl Tally {
    /// Counts a write of this length.
    pub(super) fn count(&self, length: usize, is_lent: bool) {
        let count = match (is_lent, is_worth_it(length)) {
            (true, _) => &self.lent,
            (false, true) => &self.copied,
            (false, false) => &self.small,
        };
        count.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a buffer that was given away.
    pub(super) fn count_given_away(&self) {
        self.given_away.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns it for the record.
    pub(super) fn features(&self) -> Vec<(String, String)> {
        [
            ("writes_lent", &self.lent),
            ("writes_small", &self.small),
            ("writes_copied", &self.copied),
            ("buffers_given_away", &self.given_away),
        ]
        .map(|(name, count)| (name.to_owned(), count.load(Ordering::Relaxed).to_string()))
        .into()
    }
}

static GIVEN_AWAY_BYTES: AtomicUsize = AtomicUsize::new(0);

/// Tells whether another buffer may be made.
pub(super) fn may_make() -> bool {
    GIVEN_AWAY_BYTES.load(Ordering::Relaxed) < GIVEN_AWAY_BYTES_MAX
}

/// A buffer that librados reads while a write of it is in flight.
pub(super) struct Lent {
    memory: Vec<u8>,
    /// Where in the memory the buffer begins, so that all of it can lie in huge pages.
    start: usize,
    length: usize,
    held: Held,
}

impl Lent {
    /// Makes a buffer. The host gives its memory at once if it is made ready, and otherwise as
    /// it is written to.
    pub(super) fn new(length: usize, is_ready: bool) -> Self {
        let align = if length >= huge::PAGE_BYTES { huge::PAGE_BYTES } else { 1 };
        let mut memory = vec![0; length + align - 1];
        huge::advise(memory.as_ptr(), memory.len());
        let start = memory.as_ptr().align_offset(align);
        if is_ready {
            memory[start..][..length].fill(0);
        }
        Self { memory, start, length, held: Held::default() }
    }

    /// Makes what is written; no request may be in flight.
    pub(super) fn fill(
        &mut self,
        payload: &PayloadSpec,
        object: &ObjectId,
        offset: u64,
        length: usize,
    ) {
        self.held.fill(payload, object, offset, &mut self.memory[self.start..][..length]);
    }

    /// Submits the write of what was made last; librados keeps pointing to it until it calls back
    /// with a success.
    ///
    /// # Safety
    /// Context and completion must be open, and the completion unused. The buffer must neither be
    /// touched nor dropped before librados has called back with a success, and not be dropped
    /// before the connection has ended.
    pub(super) unsafe fn submit(
        &mut self,
        lending: &Lending,
        (context, completion): (Context, Completion),
        name: &[u8],
        (write, length): (Write, usize),
    ) -> c_int {
        let name = Text {
            data: name.as_ptr().cast(),
            length: name.len().saturating_sub(1),
            capacity: name.len().saturating_sub(1).max(16),
            _unused: 0,
        };
        let (io, end) = (Handle(context), Handle(completion));
        let (io, end, name) = (&raw const io, &raw const end, &raw const name);
        let bytes = self.memory[self.start..][..length].as_mut_ptr().cast();
        let place = List(UnsafeCell::new([0; LIST_BYTES]));
        let list = place.0.get().cast::<List>();
        let listed = u32::try_from(length).expect("checked against the limit");
        // SAFETY: librados makes the list where nothing is yet, copies name and handles and notes
        // what the list has before it returns; emptied, the list needs no end of its own. A list
        // of its own for each write leaves no checksum of what was in the buffer before.
        unsafe {
            (lending.static_from_mem)(list, bytes, length);
            let result = match write {
                Write::Full => (lending.aio_write_full)(io, name, end, list),
                Write::At(offset) => (lending.aio_write)(io, name, end, list, length, offset),
                Write::Append => (lending.aio_append)(io, name, end, list, length),
            };
            (lending.splice)(list, 0, listed, std::ptr::null_mut());
            result
        }
    }

    /// Leaves the buffer to librados for ever, at the cost of its memory.
    pub(super) fn give_away(self) {
        GIVEN_AWAY_BYTES.fetch_add(self.length, Ordering::Relaxed);
        std::mem::forget(self);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_whose_calls_are_made_otherwise_are_refused() {
        assert_eq!(refusal_of("x86_64", true), None);
        assert!(refusal_of("x86_64", false).is_some_and(|why| why.contains("C library")));
        assert!(refusal_of("aarch64", true).is_some_and(|why| why.contains("aarch64")));
    }

    #[test]
    fn releases_that_were_not_looked_into_are_refused() {
        for told in ["16.2.15", "18.2.7", "20.2.4", "20"] {
            assert_eq!(check_release(Some(told)), Ok(()));
        }
        for told in ["15.2.17", "17.2.0", "19.2.1", "21.0.0", "160.1", "Development", ""] {
            assert!(check_release(Some(told)).is_err_and(|why| why.ends_with(told)), "{told}");
        }
        assert!(check_release(None).is_err());
    }

    #[cfg(all(target_arch = "x86_64", target_env = "gnu"))]
    #[test]
    fn a_library_that_lacks_a_function_is_refused() {
        // SAFETY: it is open already.
        let library = unsafe { libloading::Library::new("libc.so.6") }.expect("glibc is there");
        assert!(
            Lending::find(&library).is_err_and(|why| why.starts_with("it has no _ZN8librados"))
        );
        assert!(Lending::resolve(&library).is_err_and(|why| why == "it does not tell its release"));
    }

    #[test]
    fn no_more_buffers_are_made_once_too_many_were_given_away() {
        assert!(may_make());
        GIVEN_AWAY_BYTES.fetch_add(GIVEN_AWAY_BYTES_MAX, Ordering::Relaxed);
        assert!(!may_make());
        GIVEN_AWAY_BYTES.fetch_sub(GIVEN_AWAY_BYTES_MAX, Ordering::Relaxed);
    }

    #[test]
    fn a_buffer_begins_where_a_huge_page_does() {
        for is_ready in [true, false] {
            let large = Lent::new(huge::PAGE_BYTES, is_ready);
            let start = large.memory[large.start..].as_ptr().addr();
            assert!(start.is_multiple_of(huge::PAGE_BYTES));
            assert!(large.memory.len() >= large.start + huge::PAGE_BYTES);
        }
        assert_eq!(Lent::new(1, true).start, 0);
    }
}
