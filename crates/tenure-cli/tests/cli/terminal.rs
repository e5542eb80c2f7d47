//! A terminal with a shell in it, and a keyboard.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::{Arc, Mutex};
use std::thread;

use crate::world::World;

/// A terminal with an interactive shell in it.
pub struct Terminal {
    shell: Child,
    keyboard: File,
    screen: Arc<Mutex<String>>,
    seen: usize,
}

impl Terminal {
    pub fn open(world: &World) -> Self {
        let master = open_master();
        let name = rustix::pty::ptsname(&master, Vec::new()).unwrap();
        let name = name.into_string().unwrap();
        let slave = OpenOptions::new()
            .read(true)
            .write(true)
            .open(name)
            .unwrap();
        let mut command = Command::new("bash");
        world.prepare(&mut command);
        command.args(["--norc", "--noprofile", "-i"]);
        command
            .env("PS1", "$ ")
            .env("TERM", "xterm")
            .env_remove("NO_COLOR");
        let dup = || slave.try_clone().unwrap();
        command.stdin(dup()).stdout(dup()).stderr(dup());
        // SAFETY: only async-signal-safe calls are made between fork and exec.
        unsafe {
            command.pre_exec(|| {
                rustix::process::setsid()?;
                rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
                Ok(())
            });
        }
        let shell = command.spawn().unwrap();
        let screen = Arc::new(Mutex::new(String::new()));
        let mut output = File::from(master.try_clone().unwrap());
        let shown = screen.clone();
        thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = output.read(&mut bytes) {
                shown
                    .lock()
                    .unwrap()
                    .push_str(&String::from_utf8_lossy(&bytes[..read]));
            }
        });
        let keyboard = File::from(master);
        Self {
            shell,
            keyboard,
            screen,
            seen: 0,
        }
    }

    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the screen shows the text after everything that was expected before.
    #[track_caller]
    pub fn expect(&mut self, text: &str) {
        let mut found = None;
        let shown = crate::world::holds_within(crate::world::DEADLINE, || {
            let screen = self.screen.lock().unwrap();
            found = screen[self.seen..].find(text);
            found.is_some()
        });
        let screen = self.screen.lock().unwrap();
        assert!(shown, "no {text:?} after byte {} of {screen:?}", self.seen);
        self.seen += found.unwrap() + text.len();
    }

    pub fn screen(&self) -> String {
        self.screen.lock().unwrap().clone()
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.shell.kill();
        let _ = self.shell.wait();
    }
}

fn open_master() -> OwnedFd {
    use rustix::pty::{OpenptFlags, grantpt, openpt, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let size = rustix::termios::Winsize {
        ws_row: 24,
        ws_col: 60,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    rustix::termios::tcsetwinsize(&master, size).unwrap();
    master
}
