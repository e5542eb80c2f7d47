//! Counts in a JSON file that many programs change.
//!
//! ```console
//! $ cargo run --package tenure --example documents -- /tmp/counter.json
//! ```

use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure_files::Error;
use tenure_files::document::Documents;

#[derive(Default, Serialize, Deserialize)]
struct Counter {
    n: u64,
}

fn main() -> Result<(), Error> {
    let path = std::env::args().nth(1);
    let path = PathBuf::from(path.unwrap_or_else(|| "counter.json".into()));
    let documents = Documents::new(Duration::from_secs(5));

    // No other transaction comes between read and write, and a crash leaves the old file or the new.
    let n =
        documents.transaction_or_create(&path, Counter::default(), |counter: &mut Counter| {
            counter.n += 1;
            Ok::<_, Error>(counter.n)
        })?;
    println!("{} has n = {n}", path.display());
    Ok(())
}
