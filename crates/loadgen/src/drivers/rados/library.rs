//! librados, opened at run time: nothing of Ceph is needed to build loadstone.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ptr;

use crate::error::Error;

pub(super) type Cluster = *mut c_void;
pub(super) type Context = *mut c_void;
pub(super) type Completion = *mut c_void;
pub(super) type Listing = *mut c_void;
pub(super) type Callback = extern "C" fn(Completion, *mut c_void);

/// The name under which every release since 14 (Nautilus) installs it.
const SONAME: &str = "librados.so.2";

macro_rules! functions {
    ($($name:ident: fn($($argument:ty),*) -> $result:ty;)*) => {
        /// The functions of librados that we call; `rados/librados.h` documents them.
        pub(super) struct Library {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> $result,)*
            _library: libloading::Library,
        }

        impl Library {
            fn resolve(library: libloading::Library) -> Result<Self, libloading::Error> {
                Ok(Self {
                    // SAFETY: the types are those of librados.h, whose ABI is stable since 14.
                    $($name: unsafe { *library.get(concat!(stringify!($name), "\0").as_bytes())? },)*
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
    rados_connect: fn(Cluster) -> c_int;
    rados_shutdown: fn(Cluster) -> ();
    rados_ioctx_create: fn(Cluster, *const c_char, *mut Context) -> c_int;
    rados_ioctx_set_namespace: fn(Context, *const c_char) -> ();
    rados_ioctx_destroy: fn(Context) -> ();
    rados_aio_create_completion2: fn(*mut c_void, Option<Callback>, *mut Completion) -> c_int;
    rados_aio_release: fn(Completion) -> ();
    rados_aio_get_return_value: fn(Completion) -> c_int;
    rados_aio_write_full: fn(Context, *const c_char, Completion, *const c_char, usize) -> c_int;
    rados_aio_write: fn(Context, *const c_char, Completion, *const c_char, usize, u64) -> c_int;
    rados_aio_read: fn(Context, *const c_char, Completion, *mut c_char, usize, u64) -> c_int;
    rados_aio_stat: fn(Context, *const c_char, Completion, *mut u64, *mut i64) -> c_int;
    rados_aio_remove: fn(Context, *const c_char, Completion) -> c_int;
    rados_write_full: fn(Context, *const c_char, *const c_char, usize) -> c_int;
    rados_remove: fn(Context, *const c_char) -> c_int;
    rados_stat: fn(Context, *const c_char, *mut u64, *mut i64) -> c_int;
    rados_nobjects_list_open: fn(Context, *mut Listing) -> c_int;
    rados_nobjects_list_next: fn(Listing, *mut *const c_char, *mut *const c_char, *mut *const c_char) -> c_int;
    rados_nobjects_list_close: fn(Listing) -> ();
}

impl Library {
    /// Opens librados.
    pub(super) fn open() -> Result<Self, Error> {
        // SAFETY: librados' initialisers are those of any C++ library; Ceph's own clients do this.
        unsafe { libloading::Library::new(SONAME) }.and_then(Self::resolve).map_err(|error| {
            Error::target(format!("open {SONAME}"), error.to_string())
                .with_hint("install librados: \"librados2\" on Debian and on Red Hat")
        })
    }
}

/// How a cluster is reached.
#[derive(Debug, Clone, Default)]
pub(super) struct Access {
    pub(super) cluster: String,
    pub(super) user: String,
    pub(super) conf: Option<String>,
    pub(super) keyring: Option<String>,
    pub(super) timeout_s: f64,
}

/// A connection to a cluster; it may be used from several threads.
pub(super) struct Connection {
    pub(super) library: std::sync::Arc<Library>,
    cluster: Cluster,
}

// SAFETY: librados says that a cluster handle may be used by several threads at once.
unsafe impl Send for Connection {}
// SAFETY: as above.
unsafe impl Sync for Connection {}

impl Connection {
    pub(super) fn open(library: std::sync::Arc<Library>, access: &Access) -> Result<Self, Error> {
        let mut cluster = ptr::null_mut();
        let (name, user) = (text(&access.cluster), text(&access.user));
        // SAFETY: the handle is written to a place of ours; the texts outlive the call.
        let result =
            unsafe { (library.rados_create2)(&raw mut cluster, name.as_ptr(), user.as_ptr(), 0) };
        demand(result, || {
            format!("make a client \"{}\" of cluster \"{}\"", access.user, access.cluster)
        })?;
        let connection = Self { library, cluster };
        connection.configure(access)?;
        // SAFETY: the handle is ours and configured.
        let result = unsafe { (connection.library.rados_connect)(cluster) };
        demand(result, || {
            format!("connect to cluster \"{}\" as \"{}\"", access.cluster, access.user)
        })
        .map_err(|error| match -result {
            libc::ETIMEDOUT => error.with_hint(
                "no monitor answered: check mon_host in the configuration, and the network",
            ),
            libc::ENOENT => error.with_hint(
                "no keyring was found: set \"keyring\", or \"keyring\" in the configuration file",
            ),
            libc::EACCES | libc::EPERM => error.with_hint(
                "the monitors refused the key: does the keyring belong to this user and cluster?",
            ),
            _ => error,
        })?;
        Ok(connection)
    }

    fn configure(&self, access: &Access) -> Result<(), Error> {
        let conf = access.conf.as_deref().map(text);
        let path = conf.as_ref().map_or(ptr::null(), |path| path.as_ptr());
        // SAFETY: a null path means the default search, which also reads CEPH_CONF.
        let result = unsafe { (self.library.rados_conf_read_file)(self.cluster, path) };
        demand(result, || {
            format!(
                "read the Ceph configuration {}",
                access.conf.as_deref().unwrap_or("at its default places")
            )
        })
        .map_err(|error| error.with_hint("set \"conf\", or CEPH_CONF in the environment"))?;
        // SAFETY: a null name means CEPH_ARGS.
        unsafe { (self.library.rados_conf_parse_env)(self.cluster, ptr::null()) };
        let timeout = access.timeout_s.to_string();
        let mut options = vec![
            ("rados_osd_op_timeout", timeout.as_str()),
            ("rados_mon_op_timeout", "10"),
            ("client_mount_timeout", "10"),
        ];
        options.extend(access.keyring.as_deref().map(|path| ("keyring", path)));
        for (key, value) in options {
            let (name, setting) = (text(key), text(value));
            // SAFETY: the texts outlive the call.
            let result = unsafe {
                (self.library.rados_conf_set)(self.cluster, name.as_ptr(), setting.as_ptr())
            };
            demand(result, || format!("set {key} to \"{value}\""))?;
        }
        Ok(())
    }

    /// Opens a namespace of a pool.
    pub(super) fn context(&self, pool: &str, namespace: &str) -> Result<PoolContext, Error> {
        let mut context = ptr::null_mut();
        let (name, space) = (text(pool), text(namespace));
        // SAFETY: the handle is written to a place of ours; the texts outlive the calls.
        let result = unsafe {
            (self.library.rados_ioctx_create)(self.cluster, name.as_ptr(), &raw mut context)
        };
        demand(result, || format!("open pool \"{pool}\"")).map_err(|error| match -result {
            libc::ENOENT => {
                error.with_hint("no such pool; loadstone makes no pools: ceph osd pool create")
            }
            _ => error,
        })?;
        // SAFETY: the context was opened just now.
        unsafe { (self.library.rados_ioctx_set_namespace)(context, space.as_ptr()) };
        Ok(PoolContext { library: std::sync::Arc::clone(&self.library), context })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: contexts keep an Arc of the driver that owns this, so none is left.
        unsafe { (self.library.rados_shutdown)(self.cluster) };
    }
}

/// A namespace of a pool, opened for I/O.
pub(super) struct PoolContext {
    pub(super) library: std::sync::Arc<Library>,
    pub(super) context: Context,
}

impl Drop for PoolContext {
    fn drop(&mut self) {
        // SAFETY: librados keeps what requests in flight still need.
        unsafe { (self.library.rados_ioctx_destroy)(self.context) };
    }
}

impl PoolContext {
    /// Calls `keep_on` with each object's name until it says false.
    pub(super) fn for_each_object(
        &self,
        mut keep_on: impl FnMut(&str) -> bool,
    ) -> Result<(), c_int> {
        let mut listing = ptr::null_mut();
        // SAFETY: the listing is written to a place of ours and closed below.
        let result =
            unsafe { (self.library.rados_nobjects_list_open)(self.context, &raw mut listing) };
        if result < 0 {
            return Err(-result);
        }
        let end = loop {
            let mut name: *const c_char = ptr::null();
            // SAFETY: the name stays valid until the next call; the other two may be null.
            let result = unsafe {
                (self.library.rados_nobjects_list_next)(
                    listing,
                    &raw mut name,
                    ptr::null_mut(),
                    ptr::null_mut(),
                )
            };
            if result == -libc::ENOENT {
                break Ok(());
            }
            if result < 0 {
                break Err(-result);
            }
            // SAFETY: librados gave a terminated text.
            let name = unsafe { CStr::from_ptr(name) };
            if !keep_on(&name.to_string_lossy()) {
                break Ok(());
            }
        };
        // SAFETY: opened above.
        unsafe { (self.library.rados_nobjects_list_close)(listing) };
        end
    }
}

/// Returns a text for C; what stands behind a zero byte cannot name anything in Ceph.
pub(super) fn text(value: &str) -> CString {
    let bytes: Vec<u8> = value.bytes().take_while(|byte| *byte != 0).collect();
    CString::new(bytes).expect("zero bytes were left out")
}

fn demand(result: c_int, what: impl FnOnce() -> String) -> Result<(), Error> {
    if result >= 0 {
        return Ok(());
    }
    Err(Error::target(what(), std::io::Error::from_raw_os_error(-result).to_string()))
}
