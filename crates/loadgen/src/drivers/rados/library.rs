//! librados, opened at run time: building loadstone requires nothing of Ceph.

use std::ffi::{CString, c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::error::Error;

pub(super) type Cluster = *mut c_void;
pub(super) type Context = *mut c_void;
pub(super) type AioCompletion = *mut c_void;
pub(super) type Listing = *mut c_void;
/// Steps that the cluster executes atomically.
pub(super) type WriteSteps = *mut c_void;
pub(super) type Callback = extern "C" fn(AioCompletion, *mut c_void);

/// The name under which every release since 14 (Nautilus) installs it.
const SONAME: &str = "librados.so.2";

/// Makes a full pool return an error instead of waiting until it has space.
type FullTry = unsafe extern "C" fn(Context);

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions of librados that we call; `rados/librados.h` documents them.
        pub(super) struct Library {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> $result,)*
            /// Its name has changed once.
            pub(super) full_try: Option<FullTry>,
            _library: libloading::Library,
        }

        impl Library {
            fn resolve(library: libloading::Library) -> Result<Self, libloading::Error> {
                let full_try = [c"rados_set_pool_full_try", c"rados_set_osdmap_full_try"]
                    .iter()
                    // SAFETY: both have the type given here.
                    .find_map(|name| unsafe { library.get(name.to_bytes_with_nul()).ok() })
                    .map(|function| *function);
                Ok(Self {
                    // SAFETY: the types are those of librados.h, whose ABI is stable since 14.
                    $($name: unsafe { *library.get(concat!(stringify!($name), "\0").as_bytes())? },)*
                    full_try,
                    _library: library,
                })
            }
        }
    };
}

functions! {
    rados_create2: fn(*mut Cluster, *const c_char, *const c_char, u64) -> c_int;
    rados_conf_read_file: fn(Cluster, *const c_char) -> c_int;
    rados_conf_parse_env: fn(Cluster, *const c_char) -> c_int;
    rados_conf_set: fn(Cluster, *const c_char, *const c_char) -> c_int;
    rados_conf_get: fn(Cluster, *const c_char, *mut c_char, usize) -> c_int;
    rados_connect: fn(Cluster) -> c_int;
    rados_shutdown: fn(Cluster) -> ();
    rados_pool_lookup: fn(Cluster, *const c_char) -> i64;
    rados_ioctx_create2: fn(Cluster, i64, *mut Context) -> c_int;
    rados_ioctx_set_namespace: fn(Context, *const c_char) -> ();
    rados_ioctx_destroy: fn(Context) -> ();
    rados_ioctx_pool_requires_alignment2: fn(Context, *mut c_int) -> c_int;
    rados_ioctx_pool_required_alignment2: fn(Context, *mut u64) -> c_int;
    rados_aio_create_completion2: fn(*mut c_void, Option<Callback>, *mut AioCompletion) -> c_int;
    rados_aio_release: fn(AioCompletion) -> ();
    rados_aio_cancel: fn(Context, AioCompletion) -> c_int;
    rados_aio_get_return_value: fn(AioCompletion) -> c_int;
    rados_aio_write_full: fn(Context, *const c_char, AioCompletion, *const c_char, usize) -> c_int;
    rados_aio_write: fn(Context, *const c_char, AioCompletion, *const c_char, usize, u64) -> c_int;
    rados_aio_append: fn(Context, *const c_char, AioCompletion, *const c_char, usize) -> c_int;
    rados_aio_read: fn(Context, *const c_char, AioCompletion, *mut c_char, usize, u64) -> c_int;
    rados_aio_stat: fn(Context, *const c_char, AioCompletion, *mut u64, *mut i64) -> c_int;
    rados_aio_remove: fn(Context, *const c_char, AioCompletion) -> c_int;
    rados_aio_getxattr: fn(Context, *const c_char, AioCompletion, *const c_char, *mut c_char, usize) -> c_int;
    rados_create_write_op: fn() -> WriteSteps;
    rados_release_write_op: fn(WriteSteps) -> ();
    rados_write_op_create: fn(WriteSteps, c_int, *const c_char) -> ();
    rados_write_op_setxattr: fn(WriteSteps, *const c_char, *const c_char, usize) -> ();
    rados_write_op_cmpxattr: fn(WriteSteps, *const c_char, u8, *const c_char, usize) -> ();
    rados_write_op_write_full: fn(WriteSteps, *const c_char, usize) -> ();
    rados_write_op_write: fn(WriteSteps, *const c_char, usize, u64) -> ();
    rados_write_op_append: fn(WriteSteps, *const c_char, usize) -> ();
    rados_write_op_remove: fn(WriteSteps) -> ();
    rados_aio_write_op_operate: fn(WriteSteps, Context, AioCompletion, *const c_char, *mut i64, c_int) -> c_int;
    rados_nobjects_list_open: fn(Context, *mut Listing) -> c_int;
    rados_nobjects_list_next: fn(Listing, *mut *const c_char, *mut *const c_char, *mut *const c_char) -> c_int;
    rados_nobjects_list_close: fn(Listing) -> ();
}

/// Opens librados, once for the lifetime of the process: its threads may outlive a trial whose
/// requests were never answered, and must not lose their code.
pub(super) fn library() -> Result<&'static Library, Error> {
    static LIBRARY: OnceLock<Library> = OnceLock::new();
    if let Some(library) = LIBRARY.get() {
        return Ok(library);
    }
    // SAFETY: librados has the initialisers of an ordinary C++ library; Ceph's own clients do the
    // same.
    let opened = unsafe { libloading::Library::new(SONAME) }.and_then(Library::resolve);
    let library = opened.map_err(|error| {
        Error::target(format!("open {SONAME}"), error.to_string())
            .with_hint("install librados: \"librados2\" on Debian and on Red Hat")
    })?;
    Ok(LIBRARY.get_or_init(|| library))
}

/// Returns a C string; names in Ceph contain no zero byte, so anything after one is dropped.
pub(super) fn text(value: &str) -> CString {
    let bytes: Vec<u8> = value.bytes().take_while(|byte| *byte != 0).collect();
    CString::new(bytes).expect("zero bytes were left out")
}

/// Creates the error of a failed call; `number` is positive.
pub(super) fn refused(action: String, number: c_int) -> Error {
    Error::system(action, &std::io::Error::from_raw_os_error(number))
}

/// Returns the text of a positive error number of librados.
pub(super) fn kernel_text(number: c_int) -> String {
    std::io::Error::from_raw_os_error(number).to_string()
}
