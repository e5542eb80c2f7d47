//! A line for who watches a copy, and the signals that end it.

use std::io::{self, IsTerminal};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tenure_run::Signals;
use tenure_work::publish::Progress;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::output;

/// Shorter copies are not worth a flicker.
const AFTER: Duration = Duration::from_millis(500);
/// The interval at which the line is drawn.
const EVERY: Duration = Duration::from_millis(250);

/// Watches a copy until it is ended.
pub struct Watching {
    tasks: Vec<JoinHandle<()>>,
    is_live: bool,
}

/// Draws a line where a person watches, and lets a signal end the copy: nothing is in place then.
pub fn watch(progress: &Arc<Progress>, mut signals: Signals) -> Watching {
    let cancel = progress.cancel.clone();
    let mut tasks = vec![tokio::spawn(async move {
        let _ = signals.interruption().await;
        cancel.cancel();
    })];
    let is_live = io::stderr().is_terminal();
    if is_live {
        tasks.push(tokio::spawn(draw(Arc::clone(progress))));
    }
    Watching { tasks, is_live }
}

impl Watching {
    /// Ends it, and removes the line.
    pub fn end(self) {
        for task in &self.tasks {
            task.abort();
        }
        if self.is_live {
            output::draw("\r\x1b[K");
        }
    }
}

async fn draw(progress: Arc<Progress>) {
    let mut next = Instant::now() + AFTER;
    loop {
        sleep_until(next).await;
        next += EVERY;
        let files = progress.files.load(Ordering::Relaxed);
        let bytes = progress.bytes.load(Ordering::Relaxed);
        output::draw(&format!("\r\x1b[Ktenure: {}", line(files, bytes)));
    }
}

fn line(files: u64, bytes: u64) -> String {
    let (unit, size) = match bytes {
        0..1_000_000 => ("kB", 1e3),
        1_000_000..1_000_000_000 => ("MB", 1e6),
        _ => ("GB", 1e9),
    };
    format!("copied {files} files, {:.1} {unit}", bytes as f64 / size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_has_files_and_bytes() {
        assert_eq!(line(3, 12_345), "copied 3 files, 12.3 kB");
        assert_eq!(line(70_000, 2_500_000_000), "copied 70000 files, 2.5 GB");
    }
}
