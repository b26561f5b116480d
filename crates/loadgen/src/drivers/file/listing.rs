//! Lists the files that others wrote below a directory.

use std::io;
use std::os::fd::AsFd;

use rustix::fs::FileType;

use super::FileTree;
use super::directory::{NAMES_BYTES, for_each_name, look, open_nested};
use crate::error::Error;
use crate::object_list::{ListedObject, Lister};

impl FileTree {
    /// Lists the files of a directory and of its subdirectories whose paths begin with a prefix,
    /// like [`FileTree::for_each_file`].
    ///
    /// # Errors
    /// A directory cannot be read, other than one that vanishes meanwhile.
    pub(super) fn list_files(
        &self,
        place: &str,
        prefix: &str,
        lister: &mut Lister,
    ) -> Result<(), Error> {
        self.for_each_file(place, prefix, |object| lister.add(object)).map_err(|(below, error)| {
            let path = self.root.join(place).join(below);
            Error::system(format!("list directory \"{}\"", path.display()), &error)
        })
    }

    /// Passes each file of a directory and its subdirectories whose path begins with a prefix to
    /// `take`, until that returns false. Links are not followed. Anything but a regular file is
    /// skipped, and so is a name that is not valid UTF-8.
    ///
    /// # Errors
    /// A directory cannot be read, other than one that vanishes meanwhile: its path below `place`,
    /// and the reason.
    pub(super) fn for_each_file(
        &self,
        place: &str,
        prefix: &str,
        mut take: impl FnMut(&ListedObject) -> bool,
    ) -> Result<(), (String, io::Error)> {
        let top = self.open_below(place).map_err(|error| (String::new(), error))?;
        let mut buffer = vec![0; NAMES_BYTES];
        // Directories still to be read, as paths that are empty or end in a slash.
        let mut waiting = vec![prefix[..prefix.rfind('/').map_or(0, |slash| slash + 1)].to_owned()];
        while let Some(parents) = waiting.pop() {
            let directory = match open_nested(top.as_fd(), &parents, false) {
                Err(error) if error.kind() == io::ErrorKind::NotFound && !waiting.is_empty() => {
                    continue;
                }
                opened => opened.map_err(|error| (parents.clone(), error))?,
            };
            let mut is_enough = false;
            for_each_name(directory.as_fd(), &mut buffer, |name| {
                let Ok(text) = std::str::from_utf8(name) else { return true };
                let path = format!("{parents}{text}");
                let Ok(name) = std::ffi::CString::new(name) else { return true };
                // It may have been deleted meanwhile.
                let Ok(stat) = look(directory.as_fd(), &name) else { return true };
                match FileType::from_raw_mode(stat.st_mode) {
                    _ if !path.starts_with(prefix) => {}
                    FileType::Directory => waiting.push(format!("{path}/")),
                    FileType::RegularFile => {
                        let size_bytes = u64::try_from(stat.st_size).ok();
                        is_enough = !take(&ListedObject { key: path, size_bytes, etag: None });
                    }
                    _ => {}
                }
                !is_enough
            })
            .map_err(|error| (parents.clone(), error))?;
            if is_enough {
                return Ok(());
            }
        }
        Ok(())
    }
}
