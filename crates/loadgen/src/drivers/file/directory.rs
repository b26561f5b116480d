//! Directories: opened component by component, and listed without memory for each name.

use std::ffi::{CStr, CString, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;

use rustix::fs::{AtFlags, Stat, statat, unlinkat};

use crate::transport::disk;

/// Offset of the name in the kernel's record: after inode number, offset, length and type.
const NAME_START: usize = 19;

/// Size of the buffer for names.
pub(super) const NAMES_BYTES: usize = 32 << 10;

/// Passes each name except `.` and `..` to `take`, until that returns `false`.
pub(super) fn for_each_name(
    directory: BorrowedFd<'_>,
    buffer: &mut [u8],
    mut take: impl FnMut(&[u8]) -> bool,
) -> io::Result<()> {
    loop {
        // SAFETY: the kernel writes at most the length of the buffer.
        let result = unsafe {
            libc::syscall(
                libc::SYS_getdents64,
                directory.as_raw_fd(),
                buffer.as_mut_ptr(),
                buffer.len(),
            )
        };
        let bytes = usize::try_from(result).map_err(|_| io::Error::last_os_error())?;
        if bytes == 0 {
            return Ok(());
        }
        let mut rest = &buffer[..bytes];
        while rest.len() > NAME_START {
            let length = usize::from(u16::from_ne_bytes([rest[16], rest[17]]));
            let (entry, next) = rest.split_at(length.clamp(NAME_START, rest.len()));
            let name = entry[NAME_START..].split(|byte| *byte == 0).next().unwrap_or_default();
            if name != b"." && name != b".." && !take(name) {
                return Ok(());
            }
            rest = next;
        }
    }
}

/// Returns a name as a C string. It must be a name in a directory, not a path.
pub(super) fn c_name(name: &str) -> io::Result<CString> {
    match name {
        "" | "." | ".." => Err(io::ErrorKind::InvalidInput.into()),
        name if name.contains('/') => Err(io::ErrorKind::InvalidInput.into()),
        name => Ok(CString::new(name)?),
    }
}

pub(super) fn open_directory(parent: BorrowedFd<'_>, name: &CStr) -> io::Result<OwnedFd> {
    disk::open_at(parent, name, libc::O_RDONLY | libc::O_DIRECTORY | libc::O_NOFOLLOW)
}

pub(super) fn open_nested(top: BorrowedFd<'_>, path: &str, may_make: bool) -> io::Result<OwnedFd> {
    let mut directory = open_directory(top, c".")?;
    for part in path.split('/').filter(|part| !part.is_empty()) {
        let name = c_name(part)?;
        if may_make {
            match disk::make_directory_at(directory.as_fd(), &name) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                made => made?,
            }
        }
        directory = open_directory(directory.as_fd(), &name)?;
    }
    Ok(directory)
}

/// Removes the directories of a prefix, the innermost first, as far as they are empty.
pub(super) fn remove_nested(top: BorrowedFd<'_>, path: &str) {
    let parts: Vec<&str> = path.split('/').filter(|part| !part.is_empty()).collect();
    for depth in (0..parts.len()).rev() {
        let Ok(parent) = open_nested(top, &parts[..depth].join("/"), false) else { continue };
        let Ok(name) = c_name(parts[depth]) else { return };
        if unlinkat(&parent, &name, AtFlags::REMOVEDIR).is_err() {
            return;
        }
    }
}

pub(super) fn names_in(directory: BorrowedFd<'_>) -> io::Result<Vec<OsString>> {
    // A new descriptor, because the position in the list is shared between users of one descriptor.
    let directory = open_directory(directory, c".")?;
    let (mut buffer, mut names) = (vec![0; NAMES_BYTES], Vec::new());
    for_each_name(directory.as_fd(), &mut buffer, |name| {
        names.push(OsString::from_vec(name.to_vec()));
        true
    })?;
    Ok(names)
}

/// Returns the attributes of a name itself, without following a link.
pub(super) fn look(directory: BorrowedFd<'_>, name: &CStr) -> io::Result<Stat> {
    Ok(statat(directory, name, AtFlags::SYMLINK_NOFOLLOW)?)
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn names_equal_those_of_the_standard_library() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/drivers");
        let directory = std::fs::File::open(path).expect("the sources are there");
        let mut buffer = [0; 256];
        let mut names = Vec::new();
        for_each_name(directory.as_fd(), &mut buffer, |name| {
            names.push(String::from_utf8(name.to_vec()).expect("our names are text"));
            true
        })
        .expect("it can be listed");
        let mut expected: Vec<String> = std::fs::read_dir(path)
            .expect("it can be listed")
            .map(|entry| entry.expect("readable").file_name().into_string().expect("text"))
            .collect();
        names.sort();
        expected.sort();
        assert_eq!(names, expected);
    }
}
