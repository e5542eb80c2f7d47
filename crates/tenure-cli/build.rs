//! How the command is linked on Linux.
//!
//! `tenure run` starts for every lock, so the linker does once what the loader would do at each
//! start: the program has a fixed address, which spares 16,000 relocations and the pages that they
//! write to, and brings its own copy of the unwinder, one library less to find and to map. The
//! libraries of the system stay shared: names of servers are resolved by them.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    let target = |part: &str| env::var(format!("CARGO_CFG_TARGET_{part}")).unwrap_or_default();
    let is_static = target("FEATURE").split(',').any(|it| it == "crt-static");
    if target("OS") != "linux" || target("ENV") != "gnu" || is_static {
        return Ok(());
    }
    println!("cargo:rustc-link-arg-bins=-no-pie");
    if has_static_unwinder() {
        // The linker takes this text for the shared unwinder, and finds the other one named in it.
        let directory = PathBuf::from(env::var_os("OUT_DIR").ok_or("cargo sets OUT_DIR")?);
        fs::write(directory.join("libgcc_s.so"), "INPUT(-lgcc_eh)\n")?;
        println!("cargo:rustc-link-search=native={}", directory.display());
    }
    Ok(())
}

/// Returns true if the compiler that links has the unwinder as an archive.
fn has_static_unwinder() -> bool {
    let asked = Command::new("cc")
        .arg("-print-file-name=libgcc_eh.a")
        .output();
    let found = asked
        .ok()
        .and_then(|answer| String::from_utf8(answer.stdout).ok());
    // Where there is none, the answer is the bare name.
    env::var("HOST") == env::var("TARGET")
        && found.is_some_and(|path| Path::new(path.trim()).is_absolute())
}
