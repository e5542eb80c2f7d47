//! Takes a lock from async code, and stops if it is lost.
//!
//! ```console
//! $ cargo run --package tenure --features sqlite --example async_lock -- sqlite:/tmp/locks/tenure.db
//! ```

use std::time::Duration;

use tenure::{Keeper, Mode, Options, Owner, Resource, SessionOptions, Token};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let url = std::env::args().nth(1);
    let keeper = Keeper::open(url.as_deref().unwrap_or("memory:")).await?;
    let owner = Owner::parse("example")?;
    let session = keeper.session(SessionOptions::new(owner));

    let options = Options::default()
        .with_wait(Duration::from_secs(30))
        .with_purpose("an example");
    let build = Resource::parse("build")?;
    let guard = session.acquire(&build, Mode::Write, &options).await?;

    // The work ends as soon as the lock is no longer this program's.
    tokio::select! {
        done = work(guard.token()) => done?,
        lost = guard.lost() => return Err(lost.into()),
    }
    guard.release().await?;
    Ok(())
}

/// Writes with the token, so that a later holder fences this one.
async fn work(token: Token) -> Result<(), std::io::Error> {
    println!("working under token {token}");
    Ok(())
}
