//! Takes a lock in each store whose address it is given, and prints each result.

use tenure::{Mode, Options, Owner, SessionOptions, blocking};

fn main() {
    for url in std::env::args().skip(1) {
        match take_a_lock(&url) {
            Ok(()) => println!("locked"),
            Err(error) => println!("{}: {error}; {}", error.class().as_str(), error.remedy()),
        }
    }
}

fn take_a_lock(url: &str) -> tenure::Result<()> {
    let keeper = blocking::Keeper::open(url)?;
    let owner = Owner::parse("downstream").expect("a name");
    let session = keeper.session(SessionOptions::new(owner));
    let build = "build".parse().expect("a name");
    let guard = session.acquire(&build, Mode::Write, &Options::default())?;
    guard.release().map_err(|failed| failed.source)
}
