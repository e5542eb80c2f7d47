use std::os::unix::fs::FileExt;

use tenure_core::SessionId;

use super::*;
use crate::session_file::SessionFile;

struct Stage {
    directory: tempfile::TempDir,
}

impl Stage {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self { directory }
    }

    fn anchor(&self) -> Anchor {
        Anchor::open(&self.directory.path().join("t.db")).unwrap()
    }

    fn file(&self) -> PathBuf {
        self.directory.path().join("t.db-anchor")
    }
}

const DATABASE: FileIdentity = FileIdentity {
    device: 1,
    inode: 2,
};

fn clock_now() -> u64 {
    u64::try_from(clock::now().as_millis()).unwrap()
}

fn on_disk(anchor: &Anchor) -> u64 {
    anchor
        .ceilings()
        .unwrap()
        .into_iter()
        .max()
        .flatten()
        .unwrap()
}

/// Leaves the anchor as a power loss and a new boot do.
fn forget_boot(anchor: &Anchor) {
    let mut last = anchor.read::<Last>(Slot::LAST).unwrap().unwrap();
    last.boot ^= 1;
    anchor.write(Slot::LAST, &last).unwrap();
}

#[test]
fn tokens_grow_across_openings_and_floors() {
    let stage = Stage::new();
    let first = stage.anchor().draw(Token::NONE).unwrap();
    assert!(first.get() >= clock_now() - 60_000);
    let second = stage.anchor().draw(Token::NONE).unwrap();
    assert!(second > first);
    let floor = Token::new(second.get() + 10 * HEADROOM).unwrap();
    let anchor = stage.anchor();
    let third = anchor.draw(floor).unwrap();
    assert!(third > floor);
    assert!(third.get() <= on_disk(&anchor));
}

#[test]
fn a_new_boot_continues_above_the_ceiling() {
    let stage = Stage::new();
    let anchor = stage.anchor();
    anchor.draw(Token::NONE).unwrap();
    let ceiling = on_disk(&anchor);
    forget_boot(&anchor);
    assert!(anchor.draw(Token::NONE).unwrap().get() > ceiling);
}

#[test]
fn a_torn_ceiling_leaves_the_one_before() {
    let stage = Stage::new();
    let anchor = stage.anchor();
    let far = Token::new(clock_now() + 100 * HEADROOM).unwrap();
    let drawn = anchor.draw(far).unwrap();
    let before = on_disk(&anchor);
    // The raise to the next one is torn by a power loss.
    let slot = Slot::CEILINGS.map(|slot| anchor.read::<Ceiling>(slot).unwrap());
    let next = slot.iter().position(Option::is_none).unwrap();
    let offset = 512 * (1 + next as u64);
    anchor
        .file
        .write_all_at(b"tenurec\x01garbage", offset)
        .unwrap();
    forget_boot(&anchor);
    let token = anchor.draw(Token::NONE).unwrap();
    assert!(token > drawn && token.get() > before);
}

#[test]
fn a_ceiling_nobody_synced_is_not_drawn_from() {
    let stage = Stage::new();
    let anchor = stage.anchor();
    let first = anchor.draw(Token::NONE).unwrap();
    let in_force = anchor.read::<Last>(Slot::LAST).unwrap().unwrap().ceiling;
    // Killed between writing the slot and syncing it.
    let pending = in_force + 5 * HEADROOM;
    anchor.write(Slot::CEILINGS[1], &Ceiling(pending)).unwrap();
    let needed = Token::new(in_force + 1).unwrap();
    let token = anchor.draw(needed).unwrap();
    assert!(token > first);
    let last = anchor.read::<Last>(Slot::LAST).unwrap().unwrap();
    assert_ne!(last.ceiling, pending, "it was raised, and so synced, anew");
    assert!(last.ceiling >= token.get());
}

#[test]
fn garbage_and_emptiness_heal_and_the_clock_keeps_tokens_growing() {
    let stage = Stage::new();
    let before = stage.anchor().draw(Token::NONE).unwrap();
    for garbage in [&b""[..], b"short", &[0xff; 4096], &[0; 2048]] {
        std::fs::write(stage.file(), garbage).unwrap();
        let token = stage.anchor().draw(before).unwrap();
        assert!(token > before);
    }
}

#[test]
fn a_thousand_draws_at_once_are_all_different() {
    let stage = Stage::new();
    let mut drawn: Vec<Token> = thread::scope(|scope| {
        let draw = || {
            let anchor = stage.anchor();
            let draw = || loop {
                match anchor.draw(Token::NONE) {
                    Err(error) if crate::connection::is_busy(&error) => {}
                    drawn => return drawn.unwrap(),
                }
            };
            let drawn: Vec<Token> = (0..250).map(|_| draw()).collect();
            assert!(drawn.is_sorted());
            drawn
        };
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(draw)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    drawn.sort();
    drawn.dedup();
    assert_eq!(drawn.len(), 1000);
}

#[test]
fn a_file_is_adopted_only_when_nobody_is_alive() {
    let stage = Stage::new();
    let anchor = stage.anchor();
    assert!(!anchor.names(DATABASE).unwrap());
    let opening = anchor.begin_opening().unwrap();
    opening.adopt(DATABASE).unwrap();
    assert!(anchor.names(DATABASE).unwrap());
    drop(opening);

    let sessions = stage.directory.path().join("sessions");
    let session = SessionFile::begin(&sessions, &SessionId::parse("s").unwrap()).unwrap();
    let other = FileIdentity {
        inode: 3,
        ..DATABASE
    };
    let opening = anchor.begin_opening().unwrap();
    // The one it names is no stranger.
    opening.adopt(DATABASE).unwrap();
    let error = opening.adopt(other).unwrap_err();
    assert!(is_replaced(&error) && error.is_passing(), "{error}");
    assert!(error.to_string().contains("while 1 session"), "{error}");
    assert!(anchor.names(DATABASE).unwrap());
    drop(session);
    opening.adopt(other).unwrap();
    assert!(anchor.names(other).unwrap());
}

#[test]
fn one_opens_at_a_time_and_not_with_an_anchor_that_was_removed() {
    let stage = Stage::new();
    let (one, two) = (stage.anchor(), stage.anchor());
    let opening = one.begin_opening().unwrap();
    let error = two.begin_opening().err().unwrap();
    assert!(crate::connection::is_busy(&error));
    drop(opening);
    drop(two.begin_opening().unwrap());
    std::fs::remove_file(stage.file()).unwrap();
    assert!(two.begin_opening().is_err());
    drop(stage.anchor().begin_opening().unwrap());
}

#[test]
fn a_link_in_its_place_is_not_followed() {
    let stage = Stage::new();
    let target = stage.directory.path().join("precious");
    std::fs::write(&target, "precious").unwrap();
    std::os::unix::fs::symlink(&target, stage.file()).unwrap();
    assert!(Anchor::open(&stage.directory.path().join("t.db")).is_err());
    assert_eq!(std::fs::read(&target).unwrap(), b"precious");
}
