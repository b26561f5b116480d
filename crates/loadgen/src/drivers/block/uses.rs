//! Detects what others may have put on a file or device, or use it for. libblkid knows the
//! signatures of file systems, arrays, volumes and partition tables; the kernel knows current uses.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::fs::File;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{major, minor};

/// Every distribution installs it under this name, because its own tools need it.
const SONAME: &str = "libblkid.so.1";

// From blkid.h.
const SUPERBLOCKS_TYPE: c_int = 1 << 5;
const SUPERBLOCKS_BAD_SUM: c_int = 1 << 10;
const PARTITIONS_FORCE_GPT: c_int = 1 << 1;
const NOTHING: c_int = 1;
const SEVERAL: c_int = -2;

type Probe = *mut c_void;

struct Library {
    new_probe: unsafe extern "C" fn() -> Probe,
    free_probe: unsafe extern "C" fn(Probe),
    set_device: unsafe extern "C" fn(Probe, c_int, i64, i64) -> c_int,
    enable_superblocks: unsafe extern "C" fn(Probe, c_int) -> c_int,
    set_superblocks_flags: unsafe extern "C" fn(Probe, c_int) -> c_int,
    enable_partitions: unsafe extern "C" fn(Probe, c_int) -> c_int,
    set_partitions_flags: unsafe extern "C" fn(Probe, c_int) -> c_int,
    do_safeprobe: unsafe extern "C" fn(Probe) -> c_int,
    lookup_value:
        unsafe extern "C" fn(Probe, *const c_char, *mut *const c_char, *mut usize) -> c_int,
    _library: libloading::Library,
}

impl Library {
    fn open() -> Result<Self, libloading::Error> {
        // SAFETY: libblkid has no initialisers with side effects.
        let library = unsafe { libloading::Library::new(SONAME)? };
        // SAFETY: the types are those of blkid.h, whose ABI has not changed since 2.21.
        unsafe {
            Ok(Self {
                new_probe: *library.get(b"blkid_new_probe\0")?,
                free_probe: *library.get(b"blkid_free_probe\0")?,
                set_device: *library.get(b"blkid_probe_set_device\0")?,
                enable_superblocks: *library.get(b"blkid_probe_enable_superblocks\0")?,
                set_superblocks_flags: *library.get(b"blkid_probe_set_superblocks_flags\0")?,
                enable_partitions: *library.get(b"blkid_probe_enable_partitions\0")?,
                set_partitions_flags: *library.get(b"blkid_probe_set_partitions_flags\0")?,
                do_safeprobe: *library.get(b"blkid_do_safeprobe\0")?,
                lookup_value: *library.get(b"blkid_probe_lookup_value\0")?,
                _library: library,
            })
        }
    }
}

/// Returns libblkid, or why it is not available.
fn library() -> Result<&'static Library, &'static str> {
    static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
    LIBRARY
        .get_or_init(|| Library::open().map_err(|error| error.to_string()))
        .as_ref()
        .map_err(String::as_str)
}

/// Returns why signatures cannot be detected on this host.
pub(super) fn refusal() -> Option<&'static str> {
    library().err()
}

/// Names the signature on a file or device, read without direct I/O.
///
/// An ambivalent result counts as a signature. Without libblkid, none is found.
pub(super) fn signature(file: &File) -> Option<String> {
    let library = library().ok()?;
    // SAFETY: we own the probe until it is freed, and the descriptor stays open meanwhile.
    unsafe {
        let probe = (library.new_probe)();
        if probe.is_null() || (library.set_device)(probe, file.as_raw_fd(), 0, 0) != 0 {
            if !probe.is_null() {
                (library.free_probe)(probe);
            }
            return Some("something that libblkid cannot read".into());
        }
        (library.enable_superblocks)(probe, 1);
        (library.set_superblocks_flags)(probe, SUPERBLOCKS_TYPE | SUPERBLOCKS_BAD_SUM);
        (library.enable_partitions)(probe, 1);
        (library.set_partitions_flags)(probe, PARTITIONS_FORCE_GPT);
        let signature_name = match (library.do_safeprobe)(probe) {
            NOTHING => None,
            SEVERAL => Some("several signatures".into()),
            0 => Some(
                value(library, probe, c"TYPE")
                    .or_else(|| {
                        value(library, probe, c"PTTYPE").map(|kind| format!("partitions ({kind})"))
                    })
                    .unwrap_or_else(|| "a signature".into()),
            ),
            _ => Some("something that libblkid cannot read".into()),
        };
        (library.free_probe)(probe);
        signature_name
    }
}

/// # Safety
/// The probe belongs to the library, and has been run.
unsafe fn value(library: &Library, probe: Probe, name: &CStr) -> Option<String> {
    let mut data = std::ptr::null();
    // SAFETY: guaranteed by the caller; libblkid's values end with a zero and live as long as the
    // probe.
    unsafe {
        let result =
            (library.lookup_value)(probe, name.as_ptr(), &raw mut data, std::ptr::null_mut());
        (result == 0 && !data.is_null())
            .then(|| CStr::from_ptr(data).to_string_lossy().into_owned())
    }
}

/// Names the kernel's use of a device or an image: partitions, volumes, arrays, loop devices.
pub(super) fn holder(file: BorrowedFd<'_>, is_device: bool) -> Option<String> {
    let status = rustix::fs::fstat(file).ok()?;
    if !is_device {
        return loop_device(status.st_dev, status.st_ino);
    }
    let known = format!("/sys/dev/block/{}:{}", major(status.st_rdev), minor(status.st_rdev));
    let known = Path::new(&known);
    let names = |folder: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        entries.map(|entry| entry.path()).collect()
    };
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    if let Some(holder) = names(&known.join("holders")).first() {
        return Some(format!("{} is made of it", name(holder)));
    }
    let partition = names(known).into_iter().find(|path| path.join("partition").exists())?;
    Some(format!("it has partitions, {} and perhaps more", name(&partition)))
}

/// Names the loop device that is backed by a file.
fn loop_device(device: u64, number: u64) -> Option<String> {
    let entries = std::fs::read_dir("/sys/block").ok()?.flatten();
    entries.map(|entry| entry.path()).find_map(|path| {
        let backing = std::fs::read_to_string(path.join("loop/backing_file")).ok()?;
        let metadata = std::fs::metadata(backing.trim_end_matches('\n')).ok()?;
        let is_it = metadata.dev() == device && metadata.ino() == number;
        let name = path.file_name()?.to_string_lossy().into_owned();
        is_it.then(|| format!("{name} shows it as a device"))
    })
}

/// Returns whether a device can discard but not release space so that it reads as zeroes, as those
/// of nbd. Read from sysfs, because a trial discard would need unused space on the device.
pub(super) fn only_discards(device: &File) -> bool {
    let Ok(metadata) = device.metadata() else { return false };
    let (major, minor) = (rustix::fs::major(metadata.rdev()), rustix::fs::minor(metadata.rdev()));
    let can = |limit: &str| -> Option<bool> {
        let known = format!("/sys/dev/block/{major}:{minor}");
        // A partition has the queue of its disk.
        let queues = [format!("{known}/queue/{limit}"), format!("{known}/../queue/{limit}")];
        let text = queues.iter().find_map(|path| std::fs::read_to_string(path).ok())?;
        Some(text.trim() != "0")
    };
    can("write_zeroes_max_bytes") == Some(false) && can("discard_max_bytes") == Some(true)
}
