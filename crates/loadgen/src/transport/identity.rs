//! The identity of a file, a device or a file system, which survives a reboot. A byte-for-byte copy
//! of a marked device has the same mark, and must not be taken for the original.
//!
//! Names, device numbers and `diskseq` change from boot to boot and are not used for marks. If no
//! property survives, there is no identity, and the mark is bound to the length alone.
//!
//! A *volume* is a file system or a device that places lie on, with the path that leads there. If
//! no better property is known, its number identifies it, which may belong to another one after a
//! reboot.

use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{AtFlags, StatxFlags, major, minor};

/// File systems with stable inode numbers, as `statfs` names them: ext, XFS, btrfs, ZFS, F2FS,
/// bcachefs, tmpfs, overlayfs, NFS, CephFS, Lustre, GPFS, GFS2, OCFS2. FUSE, FAT and SMB may change
/// the number of an existing file.
const NUMBERED: [u32; 14] = [
    0xef53,
    0x5846_5342,
    BTRFS,
    ZFS,
    0xf2f5_2010,
    0xca45_1a4e,
    0x0102_1994,
    0x794c_7630,
    NFS,
    0x00c3_6400,
    0x0bd0_0bd0,
    0x4750_4653,
    0x0116_1970,
    0x7461_636f,
];
/// Its snapshots keep inode numbers, but have their own file system ID.
const BTRFS: u32 = 0x9123_683e;
const ZFS: u32 = 0x2fc1_2fc1;
/// Whether it reports a birth time depends on the kernel's version.
const NFS: u32 = 0x6969;

/// Attributes in sysfs that identify a disk, a volume, an array or a virtual disk.
const OF_DISKS: [&str; 6] =
    ["wwid", "device/wwid", "dm/uuid", "md/uuid", "serial", "device/serial"];
/// Attributes in `device` that together identify an RBD image.
const OF_IMAGES: [&str; 5] = ["cluster_fsid", "pool_id", "pool_ns", "image_id", "snap_id"];

/// Returns a digest of the identity of a file or device; `None` if no property survives a reboot.
pub(crate) fn of(file: BorrowedFd<'_>, is_device: bool) -> Option<String> {
    let crc =
        |known: String| crc_fast::checksum(crc_fast::CrcAlgorithm::Crc64Nvme, known.as_bytes());
    known(file, is_device).map(|known| format!("{:016x}", crc(known)))
}

/// Returns the volume of a device, or of a file that others made, as text for people.
pub(crate) fn of_itself(path: &Path, file: BorrowedFd<'_>, is_device: bool, bytes: u64) -> String {
    let known = known(file, is_device).or_else(|| {
        let status = rustix::fs::fstat(file).ok()?;
        Some(number_of(if is_device { status.st_rdev } else { status.st_dev }))
    });
    let mut known = known.unwrap_or_default();
    if is_device {
        // The length is part of the identity only if no load extends the file.
        known.push_str(&format!(", {bytes} bytes"));
    }
    volume(path, &known)
}

/// Returns the volume that a directory lies on, as text for people.
///
/// # Errors
/// The directory cannot be opened.
pub fn volume_of(directory: &Path) -> std::io::Result<String> {
    Ok(of_file_system(directory, located(directory)?.as_fd()))
}

/// Returns whether a file lies on ZFS.
pub(super) fn is_zfs(file: BorrowedFd<'_>) -> bool {
    rustix::fs::fstatfs(file).is_ok_and(|system| system.f_type as u32 == ZFS)
}

/// Returns a descriptor of a directory without accessing its file system.
///
/// # Errors
/// The directory does not exist.
pub(crate) fn located(directory: &Path) -> std::io::Result<std::fs::File> {
    std::fs::OpenOptions::new().read(true).custom_flags(libc::O_PATH).open(directory)
}

/// Returns the volume of the file system that a file or directory lies on, as text for people.
pub(crate) fn of_file_system(path: &Path, file: BorrowedFd<'_>) -> String {
    let known = || {
        let number = rustix::fs::fstat(file).ok()?.st_dev;
        let disk = of_device(&Path::new("/sys/dev/block").join(number_of(number)));
        let mount = Mount::of(number);
        // The program behind a FUSE mount may be as fragile as rbd-fuse, so only the kernel is
        // asked.
        if let Some(Mount { kind, source }) = &mount
            && (kind == "fuse" || kind.starts_with("fuse."))
        {
            return Some(format!("mount of {source} ({kind})"));
        }
        let kind = rustix::fs::fstatfs(file).ok()?.f_type as u32;
        // On XFS, this is the device's number, which is no better than a disk's serial number.
        let id = || {
            let id = rustix::fs::fstatvfs(file).ok()?.f_fsid;
            (id != 0).then(|| format!("file system {id:x}"))
        };
        // Some file systems, such as NFS, have only a number of the kernel: they are identified by
        // their mount.
        let source = || mount.map(|mount| format!("mount of {}", mount.source));
        let name = disk.or_else(id).or_else(source).unwrap_or_else(|| number_of(number));
        Some(format!("{name} (type {kind:x})"))
    };
    volume(path, &known().unwrap_or_default())
}

fn volume(path: &Path, known: &str) -> String {
    // The same relative path leads elsewhere from another directory.
    let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    format!("{}: {known}", path.display())
}

fn number_of(device: u64) -> String {
    format!("{}:{}", major(device), minor(device))
}

/// A line of `mountinfo`.
struct Mount {
    /// Type of the file system, such as `nfs4`.
    kind: String,
    /// Source of the mount: a device, or a server's path.
    source: String,
}

impl Mount {
    fn of(device: u64) -> Option<Self> {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").ok()?;
        let number = number_of(device);
        let line = mounts.lines().find(|line| line.split(' ').nth(2) == Some(&number))?;
        let mut words = line.split_once(" - ")?.1.split(' ').map(str::to_owned);
        Some(Self { kind: words.next()?, source: words.next()? })
    }
}

fn known(file: BorrowedFd<'_>, is_device: bool) -> Option<String> {
    let status = rustix::fs::fstat(file).ok()?;
    if is_device {
        let number = number_of(status.st_rdev);
        of_device(&Path::new("/sys/dev/block").join(number)).or_else(|| of_loop(file))
    } else {
        let system = rustix::fs::fstatfs(file).ok()?;
        // The constants of `statfs` are 32 bits wide, but its field is not on every platform.
        let kind = system.f_type as u32;
        let of_system = || rustix::fs::fstatvfs(file).map(|volume_stat| volume_stat.f_fsid).ok();
        let system_id = matches!(kind, BTRFS | ZFS).then(of_system).flatten().unwrap_or_default();
        let born = (kind != NFS).then(|| born(file)).flatten().unwrap_or_default();
        let number = status.st_ino;
        NUMBERED.contains(&kind).then(|| format!("inode {number} of {system_id:x}, born {born}"))
    }
}

/// Returns the birth time of a file, because inode numbers are reused after a delete.
fn born(file: BorrowedFd<'_>) -> Option<String> {
    let times = rustix::fs::statx(file, c"", AtFlags::EMPTY_PATH, StatxFlags::BTIME).ok()?;
    let at = times.stx_btime;
    let is_known = times.stx_mask & StatxFlags::BTIME.bits() != 0;
    is_known.then(|| format!("{}.{:09}", at.tv_sec, at.tv_nsec))
}

/// Returns the identity of a device from sysfs; for a partition, that of its disk and its start.
fn of_device(known: &Path) -> Option<String> {
    let read = |name: &str| {
        let text = std::fs::read_to_string(known.join(name)).ok()?;
        Some(text.trim().to_owned()).filter(|text| !text.is_empty())
    };
    if read("partition").is_some() {
        // The kernel's view of the folder, where a partition lies inside its disk's folder.
        let disk = std::fs::canonicalize(known).ok()?;
        let disk = of_device(disk.parent()?)?;
        return Some(format!("{disk}, from {}", read("start")?));
    }
    let named = OF_DISKS.iter().find_map(|name| Some(format!("{name} {}", read(name)?)));
    named.or_else(|| {
        read("device/image_id")?;
        let attributes = OF_IMAGES.map(|name| read(&format!("device/{name}")).unwrap_or_default());
        Some(format!("image {}", attributes.join(" ")))
    })
}

/// Returns the identity of a loop device: the inode of its backing file, which may have no name.
fn of_loop(device: BorrowedFd<'_>) -> Option<String> {
    /// From linux/loop.h. `loop_info64` begins with five numbers: device, inode, device, offset,
    /// limit.
    const LOOP_GET_STATUS64: libc::Ioctl = 0x4c05;
    const LOOP_MAJOR: u32 = 7;
    let status = rustix::fs::fstat(device).ok()?;
    if major(status.st_rdev) != LOOP_MAJOR {
        return None;
    }
    let mut info = [0_u64; 29];
    // SAFETY: the kernel writes `loop_info64`, which is 232 bytes long, and nothing else.
    let result = unsafe { libc::ioctl(device.as_raw_fd(), LOOP_GET_STATUS64, info.as_mut_ptr()) };
    let [_, number, _, offset, ..] = info;
    (result == 0).then(|| format!("loop, inode {number} from {offset}"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::fd::AsFd;
    use std::path::PathBuf;

    use super::*;

    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let name = format!("loadstone-{name}-{}", std::process::id());
            // On tmpfs, files have an identity.
            let path = PathBuf::from("/dev/shm").join(name);
            fs::create_dir_all(&path).expect("there is room");
            Self(path)
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            drop(fs::remove_dir_all(&self.0));
        }
    }

    #[test]
    fn a_renamed_file_keeps_its_identity_and_a_copy_does_not() {
        let folder = Folder::new("identity-of-files");
        let (first, second) = (folder.0.join("one"), folder.0.join("other"));
        fs::write(&first, b"x").expect("there is room");
        let of = |path| of(fs::File::open(path).expect("it is there").as_fd(), false);
        let before = of(&first);
        assert!(before.is_some());
        fs::copy(&first, &second).expect("there is room");
        assert_ne!(of(&second), before);
        fs::rename(&first, &second).expect("it is there");
        assert_eq!(of(&second), before);
    }

    #[test]
    fn a_device_is_identified_by_its_disk_and_a_partition_also_by_its_start() {
        let folder = Folder::new("identity-of-devices");
        let disk = folder.0.join("disk");
        for (name, text) in [
            ("wwid", "eui.01\n"),
            ("device/serial", "abc\n"),
            ("part/partition", "1\n"),
            ("part/start", "2048\n"),
        ] {
            let path = disk.join(name);
            fs::create_dir_all(path.parent().expect("it has one")).expect("there is room");
            fs::write(path, text).expect("there is room");
        }
        assert_eq!(of_device(&disk).as_deref(), Some("wwid eui.01"));
        assert_eq!(of_device(&disk.join("part")).as_deref(), Some("wwid eui.01, from 2048"));
        fs::write(disk.join("wwid"), "\n").expect("there is room");
        assert_eq!(of_device(&disk).as_deref(), Some("device/serial abc"));
        fs::remove_file(disk.join("device/serial")).expect("it is there");
        assert_eq!(of_device(&disk), None);
        assert_eq!(of_device(&disk.join("part")), None);
        fs::write(disk.join("device/image_id"), "10ab\n").expect("there is room");
        fs::write(disk.join("device/pool_id"), "3\n").expect("there is room");
        assert_eq!(of_device(&disk).as_deref(), Some("image  3  10ab "));
    }
}
