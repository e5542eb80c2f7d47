//! A directory put in place whole: the half of a publish that is about files.
//!
//! The other half, the manifest in a store with the lease and its token, is `tenure_work::publish`.
//! It calls this module step by step, and writes the manifest between the steps.
//!
//! # The protocol
//!
//! TARGET is the path to publish to; tmp is `<parent of TARGET>/tmp/<id>`, and the id is that of
//! the manifest.
//!
//! | step | here | state after a crash |
//! |---|---|---|
//! | 1 | the lease on the resource is taken; the manifest is `pending`, durably | TARGET as it was, nothing beside it |
//! | 2 | [`PublishTarget::check_target`] before 1; [`PublishTarget::make_tmp`]: device compared, tmp made | TARGET as it was; an empty tmp, whose inode no manifest names |
//! | 2 | the inode of tmp is in the manifest, durably, if lease and token are good | TARGET as it was; an empty tmp, which the manifest names by its inode |
//! | 2 | [`PublishTarget::copy`]: files copied and hashed | TARGET as it was; a part of tmp, which the manifest names |
//! | 3, 4 | every file and every directory of tmp is synced | TARGET as it was; tmp is whole |
//! | 5 | [`PublishTarget::lock`]; [`PublishTarget::check_target`] again; hashes and the inodes of old and new are in the manifest, durably, if lease and token are good | as after 3, 4 |
//! | 6 | [`PublishTarget::swap`]: tmp is renamed to TARGET, or exchanged with the directory that is there | TARGET is old or new; its inode says which |
//! | 7 | TARGET gets its mode and is synced, then its parent is; the lock is released | TARGET is new |
//! | 8, 9 | the manifest is `committed`, durably, if lease and token are good | TARGET is new, and the manifest says so |
//! | 10 | the lease is released; the old directory, now in tmp, is removed | the old directory may be left in tmp |
//!
//! [`PublishTarget::judge`] tells by the inodes in the manifest what a crash between 5 and 9 left,
//! and [`PublishTarget::exchange_back`] undoes an exchange with anything but the directory that was
//! to be replaced. [`PublishTarget::finish`] makes step 7 again, as the mode may not be set.
//!
//! [`PublishTarget::remove_tmp`] removes a directory whose inode the manifest names, or, after a
//! crash before the inode was written, an empty one.
//!
//! # Races
//!
//! - Two publishers of one TARGET are kept apart by the lease. A publisher that was overtaken, as
//!   it was stopped for longer than its lease lasts, is refused at 5: lease and token are compared
//!   while `.NAME.lock` is held, and no publisher renames without that lock. A publisher that is
//!   stopped between 5 and 7 keeps the lock, and makes others wait.
//! - If a program that takes no lock puts something else at TARGET between the look at its inode
//!   and the exchange, that is in tmp for an instant: the inodes are compared again after the
//!   exchange, and it is exchanged back.
//! - Recovery holds the same lease and the same lock.
//!
//! # Limitations
//!
//! - Names that are not UTF-8 are refused, as a manifest is JSON. Devices, sockets and pipes are
//!   refused. Owners, access lists, extended attributes, file capabilities, hard links and holes
//!   are not kept; modes are, except for setuid and setgid of a file or directory whose copy has
//!   another owner.
//! - A change that a program makes through a memory map while the directory is read is missed: the
//!   times of the file may not change with it. SQLite (its `-shm`, and databases with `mmap_size`)
//!   and LMDB write that way: publish a copy that they made themselves.
//! - A directory that is published over must be on a file system that can exchange two names
//!   (Linux: all common local ones). A directory that is a mount point, or that this user may not
//!   write, is refused. If something is mounted inside of it, the mount goes with it to tmp, and
//!   nothing of it is removed until it is unmounted.
//! - Two publishers that work under one lease, as inside one `tenure run`, are not kept apart by
//!   it: the later one ends the manifest of the earlier one, which then touches nothing (77).

mod copy;
mod hashing;
mod swap;
mod target;
mod verify;

pub use copy::{Copied, FILES_MAX, Progress};
pub use swap::CrashOutcome;
pub use target::PublishTarget;
pub use tenure_api::publish::{Difference, Inode, PublishedFile};
