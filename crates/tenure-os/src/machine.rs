//! The identity of this machine.

use std::fs;
use std::sync::OnceLock;

use crate::platform::host_name;

/// Returns the id of this machine: the id of the system, or the name of the host where it has none.
/// A container without an id of its own is told from others by its host name.
pub fn id() -> &'static str {
    static ID: OnceLock<String> = OnceLock::new();
    ID.get_or_init(|| {
        let paths = ["/etc/machine-id", "/var/lib/dbus/machine-id"];
        let read = |path: &&str| fs::read_to_string(path).ok();
        let id = paths.iter().find_map(read).map(|id| id.trim().to_owned());
        let id = id.filter(|id| id.len() == 32 && id.bytes().all(|byte| byte.is_ascii_hexdigit()));
        id.unwrap_or_else(host_name)
    })
}
