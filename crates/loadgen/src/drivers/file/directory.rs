//! Lists a directory without memory for each name.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Where a name begins in what the kernel gives for it: after number, offset, length and kind.
const NAME_START: usize = 19;

/// Gives each name but `.` and `..` to `take`, until that returns `false`.
pub(super) fn for_each_name(
    directory: BorrowedFd<'_>,
    buffer: &mut [u8],
    mut take: impl FnMut(&[u8]) -> bool,
) -> io::Result<()> {
    loop {
        // SAFETY: the kernel writes at most as many bytes as the buffer has.
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

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn names_are_those_that_the_standard_library_finds() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/drivers");
        let directory = std::fs::File::open(path).expect("the sources are there");
        let mut buffer = [0; 256];
        let mut found = Vec::new();
        for_each_name(directory.as_fd(), &mut buffer, |name| {
            found.push(String::from_utf8(name.to_vec()).expect("our names are text"));
            true
        })
        .expect("it can be listed");
        let mut expected: Vec<String> = std::fs::read_dir(path)
            .expect("it can be listed")
            .map(|entry| entry.expect("readable").file_name().into_string().expect("text"))
            .collect();
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
    }
}
