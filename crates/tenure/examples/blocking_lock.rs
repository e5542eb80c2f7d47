//! Takes two locks without async, in the one order that all programs keep.
//!
//! ```console
//! $ cargo run --package tenure --features sqlite --example blocking_lock -- sqlite:/tmp/locks/tenure.db
//! ```

use tenure::{LockSet, Mode, Options, Owner, Resource, SessionOptions, blocking};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1);
    let keeper = blocking::Keeper::open(url.as_deref().unwrap_or("memory:"))?;
    let session = keeper.session(SessionOptions::new(Owner::parse("example")?));

    let wanted = [
        (Resource::parse("map:atlas/m3")?, Mode::Read),
        (Resource::parse("index:main")?, Mode::Write),
    ];
    let set = LockSet::new(&keeper.settings().ranking, wanted);
    let guards = session.acquire_many(&set, &Options::default())?;
    for guard in &guards {
        println!("holding {} ({})", guard.resource(), guard.mode());
    }
    for guard in guards {
        guard.release()?;
    }

    // Another session holds it: no error, and nothing to release.
    let other = keeper.session(SessionOptions::new(Owner::parse("another")?));
    let index = Resource::parse("index:main")?;
    let _held = other.acquire(&index, Mode::Write, &Options::default())?;
    let taken = session.try_acquire(&index, Mode::Write, &Options::default())?;
    println!("taken meanwhile: {}", taken.is_some());
    Ok(())
}
