//! Two tasks of one process and another store, while the database is deleted again and again.
//!
//! The race: one task commits a grant in the old file; before it looks whether the file is still
//! there, the other opens the new one. The first must not take the new file for its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use tenure::{Mode, Session};
use tokio::task::JoinHandle;

use crate::scene::{DEADLINE, Scene, acquire, session};

const ROUNDS: u32 = 40;
/// Every holder keeps its lock this long.
const INSIDE: Duration = Duration::from_millis(5);

/// One lock, and a count of those who believe to have it.
struct Door {
    name: &'static str,
    inside: AtomicU32,
    entered: AtomicU32,
}

impl Door {
    fn new(name: &'static str) -> Arc<Self> {
        let (inside, entered) = (AtomicU32::new(0), AtomicU32::new(0));
        Arc::new(Self {
            name,
            inside,
            entered,
        })
    }

    fn entered(&self) -> u32 {
        self.entered.load(Ordering::SeqCst)
    }
}

/// Goes in and out until it is told to stop. A refusal is no failure.
fn go_in_and_out(session: Session, door: &Arc<Door>, stop: &Arc<AtomicBool>) -> JoinHandle<()> {
    let (door, stop) = (Arc::clone(door), Arc::clone(stop));
    tokio::spawn(async move {
        let limit = Duration::from_secs(2);
        while !stop.load(Ordering::SeqCst) {
            let Ok(guard) = acquire(&session, door.name, Mode::Write, limit).await else {
                continue;
            };
            let others = door.inside.fetch_add(1, Ordering::SeqCst);
            assert_eq!(others, 0, "two have {}", door.name);
            // Another session has time to come in by the new database, if that were possible.
            tokio::time::sleep(INSIDE).await;
            door.inside.fetch_sub(1, Ordering::SeqCst);
            door.entered.fetch_add(1, Ordering::SeqCst);
            drop(guard);
        }
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn no_two_have_a_lock_while_the_database_is_deleted_under_two_tasks_and_another_store() {
    let scene = Scene::new();
    let (here, there) = (scene.keeper().await, scene.keeper().await);
    let doors = [Door::new("a"), Door::new("b")];
    let stop = Arc::new(AtomicBool::new(false));
    let mut tasks = Vec::new();
    for door in &doors {
        for keeper in [&here, &there] {
            let session = session(keeper, "ana").await;
            tasks.push(go_in_and_out(session, door, &stop));
        }
    }
    for round in 0..ROUNDS {
        // The database is deleted in the middle of things: each time after some more were let in.
        let before = doors.each_ref().map(|door| door.entered());
        let began = Instant::now();
        while doors
            .iter()
            .zip(before)
            .any(|(door, was)| door.entered() < was + 3)
        {
            assert!(
                began.elapsed() < DEADLINE,
                "nobody is let in, round {round}"
            );
            assert!(
                tasks.iter().all(|task| !task.is_finished()),
                "round {round}"
            );
            tokio::time::sleep(Duration::from_micros(200)).await;
        }
        scene.delete_database();
    }
    stop.store(true, Ordering::SeqCst);
    for task in tasks {
        task.await.unwrap();
    }
}
