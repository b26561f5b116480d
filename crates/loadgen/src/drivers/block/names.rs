//! Opens a file or device by name, and renames a new file to its final name.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::RenameFlags;

/// How long to wait for a busy device, and the pause between attempts to open it.
const BUSY_MAX: Duration = Duration::from_secs(2);
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// Gives a file its final name, unless that name exists.
pub(super) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    let cwd = rustix::fs::CWD;
    match rustix::fs::renameat_with(cwd, from, cwd, to, RenameFlags::NOREPLACE) {
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::OPNOTSUPP) => {
            // NFS and some other file systems do not support the flag, but a link also fails if the
            // name exists.
            std::fs::hard_link(from, to)?;
            std::fs::remove_file(from)
        }
        result => Ok(result?),
    }
}

/// Opens a file. A device stays busy for a moment after the previous program has closed it or was
/// killed, because the kernel destroys a ring asynchronously.
pub(super) fn open_when_free(options: &OpenOptions, path: &Path) -> io::Result<File> {
    let over = Instant::now() + BUSY_MAX;
    loop {
        match options.open(path) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) && Instant::now() < over => {
                std::thread::sleep(BUSY_PAUSE);
            }
            opened => return opened,
        }
    }
}
