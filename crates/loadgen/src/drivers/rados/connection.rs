//! A connection to a cluster, and the namespaces of a pool that are open on it.

use std::ffi::{CStr, c_char, c_int};
use std::marker::PhantomData;
use std::ptr;
use std::sync::Arc;

use super::library::{Cluster, Context, Library, Listing, library, refused, text};
use super::settings::Access;
use crate::error::{Error, Kind};

/// Timeout of the monitors, unless the user's configuration sets one.
const MONITORS_ANSWER_WITHIN_S: &str = "30";

/// Maximum requests and bytes that the load has in flight on one connection.
#[derive(Debug, Clone, Copy)]
pub(super) struct InFlight {
    pub(super) requests: u64,
    pub(super) bytes: u64,
}

/// A connection to a cluster, which several threads may use.
pub(super) struct Connection {
    pub(super) library: &'static Library,
    cluster: Cluster,
    pool: i64,
}

// SAFETY: librados allows several threads to use a cluster handle concurrently.
unsafe impl Send for Connection {}
// SAFETY: as above.
unsafe impl Sync for Connection {}

impl Connection {
    /// Connects, and looks up the pool.
    pub(super) fn open(access: &Access, in_flight: InFlight) -> Result<Self, Error> {
        let library = library()?;
        let mut cluster = ptr::null_mut();
        let (name, user) = (text(&access.cluster), text(&access.user));
        // SAFETY: the handle is written to memory that we own; the texts outlive the call.
        let result =
            unsafe { (library.rados_create2)(&raw mut cluster, name.as_ptr(), user.as_ptr(), 0) };
        demand(result, || {
            format!("make a client \"{}\" of cluster \"{}\"", access.user, access.cluster)
        })?;
        let mut connection = Self { library, cluster, pool: -1 };
        let is_configured = connection.configure(access, in_flight)?;
        // SAFETY: we own the handle, and it is configured.
        let result = unsafe { (library.rados_connect)(cluster) };
        demand(result, || {
            format!("connect to cluster \"{}\" as \"{}\"", access.cluster, access.user)
        })
        .map_err(|error| {
            let kind = match -result {
                libc::ENOENT if is_configured => Kind::SecretAbsent,
                libc::ENOENT => Kind::Other,
                _ => error.kind(),
            };
            error.of(kind).with_hint(why_refused(-result, is_configured))
        })?;
        connection.pool = connection.look_up(&access.pool)?;
        Ok(connection)
    }

    /// Reads the user's configuration; returns whether there is a configuration file.
    fn configure(&self, access: &Access, in_flight: InFlight) -> Result<bool, Error> {
        let conf = access.conf.as_deref().map(text);
        let path = conf.as_ref().map_or(ptr::null(), |path| path.as_ptr());
        // SAFETY: a null path means the default search, which also reads CEPH_CONF.
        let result = unsafe { (self.library.rados_conf_read_file)(self.cluster, path) };
        // Ceph's own commands also work without a file, if CEPH_ARGS gives everything that is
        // needed.
        let is_absent = conf.is_none() && result == -libc::ENOENT;
        if !is_absent {
            let place = access.conf.as_deref().unwrap_or("at its default places");
            demand(result, || format!("read the Ceph configuration {place}")).map_err(|error| {
                error.of(Kind::Other).with_hint("set \"conf\", or CEPH_CONF in the environment")
            })?;
        }
        // SAFETY: a null name means CEPH_ARGS.
        unsafe { (self.library.rados_conf_parse_env)(self.cluster, ptr::null()) };
        for (key, value) in &access.options {
            self.set(key, value)?;
        }
        if let Some(path) = &access.keyring {
            // Ceph also accepts lists and variables. For a plain path that cannot be read, it would
            // only report "permission denied".
            if !path.contains([',', '$']) {
                std::fs::File::open(path).map_err(|error| {
                    Error::system(format!("read the keyring {path}"), &error).of(Kind::SecretAbsent)
                })?;
            }
            self.set("keyring", path)?;
        }
        // By default, one waits for five minutes and the other without limit.
        for (key, default) in [("client_mount_timeout", "300"), ("rados_mon_op_timeout", "0")] {
            if self.get(key).is_none_or(|value| value.trim_end_matches(".000000") == default) {
                self.set(key, MONITORS_ANSWER_WITHIN_S)?;
            }
        }
        // Above these limits, librados would block the submitting thread, and fewer requests would
        // be in flight than the load requires, without notice.
        for (key, needed) in [
            ("objecter_inflight_ops", in_flight.requests),
            ("objecter_inflight_op_bytes", in_flight.bytes),
        ] {
            let limit = self.get(key).and_then(|value| value.parse::<u64>().ok());
            if limit.is_none_or(|limit| limit < needed) {
                self.set(key, &needed.to_string())?;
            }
        }
        Ok(!is_absent)
    }

    fn set(&self, key: &str, value: &str) -> Result<(), Error> {
        let (name, setting) = (text(key), text(value));
        // SAFETY: the texts outlive the call.
        let result =
            unsafe { (self.library.rados_conf_set)(self.cluster, name.as_ptr(), setting.as_ptr()) };
        demand(result, || format!("set Ceph's option {key} to \"{value}\"")).map_err(|error| {
            let error = error.of(Kind::Other);
            match -result {
                libc::ENOENT => error.with_hint("Ceph has no option of this name"),
                _ => error.with_hint("is this a value that the option takes?"),
            }
        })
    }

    fn get(&self, key: &str) -> Option<String> {
        let name = text(key);
        let mut value = [0_u8; 256];
        // SAFETY: the name outlives the call, and the buffer has the stated length.
        let result = unsafe {
            (self.library.rados_conf_get)(
                self.cluster,
                name.as_ptr(),
                value.as_mut_ptr().cast::<c_char>(),
                value.len(),
            )
        };
        let text = CStr::from_bytes_until_nul(&value).ok()?;
        (result >= 0).then(|| text.to_string_lossy().into_owned())
    }

    fn look_up(&self, pool: &str) -> Result<i64, Error> {
        let name = text(pool);
        // SAFETY: the name outlives the call.
        let id = unsafe { (self.library.rados_pool_lookup)(self.cluster, name.as_ptr()) };
        if id >= 0 {
            return Ok(id);
        }
        let number = c_int::try_from(-id).unwrap_or(libc::EIO);
        let error = refused(format!("open pool \"{pool}\""), number);
        Err(match number {
            libc::ENOENT => {
                error.with_hint("no such pool; loadstone makes no pools: ceph osd pool create")
            }
            _ => error,
        })
    }

    /// Opens a namespace of the pool. It sends nothing, so it does not wait.
    pub(super) fn namespace(self: &Arc<Self>, namespace: &str) -> Result<PoolContext, c_int> {
        let mut context = ptr::null_mut();
        // SAFETY: the handle is written to memory that we own.
        let result = unsafe {
            (self.library.rados_ioctx_create2)(self.cluster, self.pool, &raw mut context)
        };
        if result < 0 {
            return Err(-result);
        }
        let space = text(namespace);
        // SAFETY: the context was opened just now; the text outlives the call.
        unsafe { (self.library.rados_ioctx_set_namespace)(context, space.as_ptr()) };
        if let Some(full_try) = self.library.full_try {
            // A full pool is an outcome, and its objects can be deleted. SAFETY: as above.
            unsafe { full_try(context) };
        }
        Ok(PoolContext { connection: Arc::clone(self), context })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: every context keeps its connection, and every request in flight its context, so
        // none is left.
        unsafe { (self.library.rados_shutdown)(self.cluster) };
    }
}

fn why_refused(number: c_int, is_configured: bool) -> &'static str {
    if !is_configured {
        return "no configuration file was found: set \"conf\", or CEPH_CONF in the environment";
    }
    match number {
        libc::ETIMEDOUT => {
            "no monitor answered: check mon_host in the configuration, and the network"
        }
        libc::ENOENT => {
            "no keyring was found: set \"keyring\", or \"keyring\" in the configuration file"
        }
        libc::EACCES | libc::EPERM => {
            "the monitors refused this user: is its key in the keyring, and of this cluster?"
        }
        libc::EINVAL | libc::EIO => "can the keyring be read, and is it one? is mon_host right?",
        _ => "check the cluster with: ceph health detail",
    }
}

/// A namespace of a pool, opened for I/O. Several threads may use it.
///
/// It keeps its connection, because an abandoned list continues on its thread after the trial has
/// ended.
pub(super) struct PoolContext {
    connection: Arc<Connection>,
    pub(super) context: Context,
}

// SAFETY: librados accepts requests on one context from several threads, but no change of the
// context meanwhile; nothing here changes a context after it was opened.
unsafe impl Send for PoolContext {}
// SAFETY: as above.
unsafe impl Sync for PoolContext {}

impl Drop for PoolContext {
    fn drop(&mut self) {
        // SAFETY: clients leak the contexts of requests that are still in flight, and the
        // connection is shut down later.
        unsafe { (self.connection.library.rados_ioctx_destroy)(self.context) };
    }
}

impl PoolContext {
    /// Returns the alignment of appends to the pool, or 0 if there is none: an erasure-coded pool
    /// without overwrites accepts whole stripes only.
    pub(super) fn append_alignment(&self) -> Result<u64, c_int> {
        let (mut is_required, mut bytes) = (0, 0);
        // SAFETY: the context is open, and we own the memory of the results.
        let result = unsafe {
            let library = self.connection.library;
            let asks = library.rados_ioctx_pool_requires_alignment2;
            match asks(self.context, &raw mut is_required) {
                0 if is_required != 0 => {
                    let how = library.rados_ioctx_pool_required_alignment2;
                    how(self.context, &raw mut bytes)
                }
                result => result,
            }
        };
        if result < 0 { Err(-result) } else { Ok(bytes) }
    }

    /// Begins to list the namespace. It blocks.
    pub(super) fn list(&self) -> Result<Names<'_>, c_int> {
        let library = self.connection.library;
        let mut listing = ptr::null_mut();
        // SAFETY: the listing is written to memory that we own, and closed when it is dropped.
        let result = unsafe { (library.rados_nobjects_list_open)(self.context, &raw mut listing) };
        if result < 0 {
            return Err(-result);
        }
        Ok(Names { library, listing, _context: PhantomData })
    }
}

/// The names of the objects in a namespace, whose context stays open as long as this value exists.
pub(super) struct Names<'a> {
    library: &'static Library,
    listing: Listing,
    _context: PhantomData<&'a PoolContext>,
}

impl Names<'_> {
    /// Returns the next name; it blocks.
    pub(super) fn next(&mut self) -> Result<Option<String>, c_int> {
        let mut name: *const c_char = ptr::null();
        // SAFETY: the name stays valid until the next call; the other two may be null.
        let result = unsafe {
            (self.library.rados_nobjects_list_next)(
                self.listing,
                &raw mut name,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        match -result {
            libc::ENOENT => Ok(None),
            number if number > 0 => Err(number),
            // SAFETY: librados returned a terminated text.
            _ => Ok(Some(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())),
        }
    }
}

impl Drop for Names<'_> {
    fn drop(&mut self) {
        // SAFETY: it is opened once and closed once.
        unsafe { (self.library.rados_nobjects_list_close)(self.listing) };
    }
}

fn demand(result: c_int, what: impl FnOnce() -> String) -> Result<(), Error> {
    if result >= 0 { Ok(()) } else { Err(refused(what(), -result)) }
}
