//! Opens a file or device by its name, and gives a file the name that it keeps.

use std::fs::{File, OpenOptions};
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use rustix::fs::RenameFlags;

/// How long to wait for a device that is busy, and how often it is opened again meanwhile.
const BUSY_MAX: Duration = Duration::from_secs(2);
const BUSY_PAUSE: Duration = Duration::from_millis(5);

/// Gives a file the name that it shall have, unless something has that name.
pub(super) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    let cwd = rustix::fs::CWD;
    match rustix::fs::renameat_with(cwd, from, cwd, to, RenameFlags::NOREPLACE) {
        Err(rustix::io::Errno::INVAL | rustix::io::Errno::NOSYS | rustix::io::Errno::OPNOTSUPP) => {
            // NFS and some others know no such flag, but a second name is as new.
            std::fs::hard_link(from, to)?;
            std::fs::remove_file(from)
        }
        result => Ok(result?),
    }
}

/// Opens a file. A device stays busy for a moment after the program before let go of it, or was
/// killed: the kernel takes a ring apart later, by itself.
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
