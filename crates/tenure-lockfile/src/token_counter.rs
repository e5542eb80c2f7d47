//! Tokens that never go back, even after a power loss or a clock set back.
//!
//! A token is the highest of
//!
//! - one more than the last token of this lock file, which a power loss may set back;
//! - one more than the *floor*: no token of an earlier boot was above it;
//! - if the lock file does not know its last token, because it is new, was deleted or holds
//!   garbage: one more than the *reach*: no token of this boot was above it;
//! - the clock in milliseconds, for lock files and directories that were restored.
//!
//! The file `tokens` holds the boot, the floor, the reach and a *ceiling*, and no token above the
//! ceiling is drawn before a higher ceiling is synced to disk. After a power loss the new boot
//! makes the old ceiling its floor. So the clock may be wrong, and the unsynced tail of every lock
//! file may be lost, and still the next token is higher.
//!
//! A ceiling is an hour of milliseconds above the token that needed it: it costs few syncs an hour.
//!
//! # Raising the ceiling, and the crash and the race at each step
//!
//! 1. Lock `tokens.lock`, and read the file again: another process may have raised the ceiling.
//! 2. Replace the file by one with the new ceiling as *pending*, durably. A reader draws nothing
//!    from it yet, as it may not be on disk. A crash leaves it pending, and the next raise begins
//!    here again; a new boot counts tokens up to it as drawn.
//! 3. Write into that file that the new ceiling is in force. This need not be durable: a power loss
//!    goes back to step 2, from which a new boot finds the same floor. The text has a fixed width
//!    and is shorter than a sector, so it is never half old and half new.
//!
//! The reach is raised a second of milliseconds ahead, in place and under the same lock. It need
//! not be durable: a power loss ends the boot it is for.
//!
//! A process that remembers lower bounds only reads the file once more than needed.

use std::fs;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tenure_core::internal::lock;
use tenure_core::{Error, Result, Timestamp, Token};
use tenure_os::clock;
use tenure_os::disk::RealDisk;
use tenure_os::platform::{self, Share};
use tenure_os::replace::replace;

use crate::interrupt::Interrupt;
use crate::kernel_wait::unawaited;

/// The distance from a token to the ceiling.
const HEADROOM: u64 = 3_600_000;
/// The distance from a token to the reach.
const STEP: u64 = 1000;
/// The longest wait for the lock of the ceiling.
const LOCK_MAX: Duration = Duration::from_secs(10);

/// The source of the tokens of one directory.
pub(crate) struct TokenCounter {
    path: PathBuf,
    known: Mutex<Option<Bounds>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Bounds {
    boot_id: String,
    /// The bound that no token of an earlier boot was above.
    floor: u64,
    /// The bound that no token of this boot was above.
    reach: u64,
    /// The bound up to which tokens may be drawn.
    ceiling: u64,
    /// A higher ceiling that may not be on disk yet.
    pending: u64,
}

impl TokenCounter {
    pub(crate) fn in_directory(directory: &Path) -> Self {
        Self {
            path: directory.join("tokens"),
            known: Mutex::new(None),
        }
    }

    /// Returns the next token after `last`.
    pub(crate) fn draw(&self, last: Token, now: Timestamp) -> Result<Token> {
        let mut known = lock(&self.known);
        if known.is_none() {
            *known = self.read_current()?;
        }
        let mut bounds = match known.take() {
            Some(bounds) => bounds,
            None => self.raise(0, now)?,
        };
        let mut token = bounds.next(last, now)?;
        if token.get() > bounds.reach {
            bounds = self.raise(token.get(), now)?;
            // Other processes may have drawn meanwhile, so the token is computed again from the new
            // reach.
            token = bounds.next(last, now)?;
            if token.get() > bounds.reach {
                bounds = self.raise(token.get(), now)?;
            }
        }
        *known = Some(bounds);
        Ok(token)
    }

    /// Writes bounds for this boot that cover `needed`; the ceiling is durable.
    fn raise(&self, needed: u64, now: Timestamp) -> Result<Bounds> {
        let _lock = self.lock()?;
        let boot_id = clock::boot_id()?;
        let old = self.read()?;
        let mut bounds = match old {
            // The boot is the same: the floor stays.
            Some(bounds) if bounds.boot_id == boot_id => bounds,
            // The boot is new: every token drawn before is at most the old ceiling.
            old => {
                let floor = old.map_or(0, |bounds| bounds.ceiling.max(bounds.pending));
                Bounds {
                    boot_id: boot_id.to_owned(),
                    floor,
                    reach: floor,
                    ceiling: floor,
                    pending: floor,
                }
            }
        };
        bounds.reach = bounds.reach.max(higher(needed, STEP));
        if bounds.reach > bounds.ceiling {
            bounds.pending = higher(bounds.reach.max(millis(now)), HEADROOM);
            let not_yet = Bounds {
                reach: bounds.ceiling,
                ..bounds.clone()
            };
            let not_yet = not_yet.encode();
            unawaited(|| replace(&RealDisk, &self.path, not_yet.as_bytes(), None))?;
            bounds.ceiling = bounds.pending;
        }
        self.write_over(&bounds)?;
        Ok(bounds)
    }

    fn write_over(&self, bounds: &Bounds) -> Result<()> {
        let file = fs::OpenOptions::new().write(true).open(&self.path);
        let written = file.and_then(|file| file.write_all_at(bounds.encode().as_bytes(), 0));
        written.map_err(|source| Error::io("write", &self.path, source))
    }

    /// Takes `tokens.lock`. The wait is bounded, as the caller holds locks; a holder needs only a
    /// few syncs.
    fn lock(&self) -> Result<fs::File> {
        let path = self.path.with_extension("lock");
        let file =
            platform::open_or_create(&path).map_err(|source| Error::io("open", &path, source))?;
        let failed = |source| Error::io("lock", &path, source);
        // The first try does not wait: most raises sync nothing, and the drop of a wait waits for
        // them.
        if platform::try_flock(&file, Share::Exclusive).map_err(failed)? {
            return Ok(file);
        }
        let mut interrupt = Interrupt::at(Instant::now() + LOCK_MAX);
        let wait = || interrupt.wait(|| platform::wait_flock(&file, Share::Exclusive));
        match unawaited(wait).map_err(failed)? {
            Ok(()) => Ok(file),
            Err(_) => Err(failed(io::ErrorKind::TimedOut.into())),
        }
    }

    /// Returns the bounds, if they are of this boot.
    fn read_current(&self) -> Result<Option<Bounds>> {
        let boot_id = clock::boot_id()?;
        Ok(self.read()?.filter(|bounds| bounds.boot_id == boot_id))
    }

    fn read(&self) -> Result<Option<Bounds>> {
        let text = match fs::read_to_string(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) => return Err(Error::io("read", &self.path, source)),
        };
        let bounds = Bounds::decode(&text).ok_or_else(|| {
            Error::corrupt(
                self.path.clone(),
                "it does not hold the bounds of the tokens; restore it, or delete it if \
                      no token drawn so far is in use any more",
            )
        })?;
        Ok(Some(bounds))
    }
}

/// Returns the time in milliseconds, or zero if the clock is before 1970.
fn millis(now: Timestamp) -> u64 {
    u64::try_from(now.as_millis()).unwrap_or(0)
}

fn higher(number: u64, by: u64) -> u64 {
    number.saturating_add(by).min(Token::MAX.get())
}

impl Bounds {
    /// Returns the token that follows, within the bounds or not.
    fn next(&self, last: Token, now: Timestamp) -> Result<Token> {
        let known = if last == Token::NONE {
            self.reach
        } else {
            last.get().max(self.floor)
        };
        let known = Token::new(known).unwrap_or(last);
        let next = known.next(millis(now));
        next.ok_or_else(|| Error::Internal("tokens are used up".into()))
    }

    fn encode(&self) -> String {
        let Bounds {
            boot_id,
            floor,
            reach,
            ceiling,
            pending,
        } = self;
        format!(
            "tenure tokens 1\nboot {boot_id}\nfloor {floor:016}\nreach {reach:016}\n\
             ceiling {ceiling:016}\npending {pending:016}\n"
        )
    }

    fn decode(text: &str) -> Option<Self> {
        let mut lines = text.lines();
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        field("tenure tokens").filter(|version| *version == "1")?;
        let bounds = Bounds {
            boot_id: field("boot")?.to_owned(),
            floor: field("floor")?.parse().ok()?,
            reach: field("reach")?.parse().ok()?,
            ceiling: field("ceiling")?.parse().ok()?,
            pending: field("pending")?.parse().ok()?,
        };
        let steps = [
            bounds.floor,
            bounds.reach,
            bounds.ceiling,
            bounds.pending,
            Token::MAX.get(),
        ];
        steps.is_sorted().then_some(bounds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: i64 = 1_763_208_000_000;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    fn token(number: u64) -> Token {
        Token::new(number).unwrap()
    }

    #[test]
    fn the_ceiling_is_on_disk_before_a_token_below_it_is_drawn() {
        let directory = tempfile::tempdir().unwrap();
        let tokens = TokenCounter::in_directory(directory.path());
        let mut last = Token::NONE;
        for step in 0..5 {
            let next = tokens.draw(last, at(NOON + step * 3_000_000)).unwrap();
            let text = fs::read_to_string(directory.path().join("tokens")).unwrap();
            let on_disk = Bounds::decode(&text).unwrap();
            assert!(next > last && next.get() <= on_disk.ceiling);
            last = next;
        }
    }

    #[test]
    fn a_new_boot_continues_above_the_old_ceiling_even_if_the_clock_was_set_back() {
        let directory = tempfile::tempdir().unwrap();
        let drawn = TokenCounter::in_directory(directory.path())
            .draw(Token::NONE, at(NOON))
            .unwrap();
        let path = directory.path().join("tokens");
        let text = fs::read_to_string(&path).unwrap();
        let other_boot = text.replace(clock::boot_id().unwrap(), "another-boot");
        fs::write(&path, other_boot).unwrap();
        // The lock file forgot its last token, and the clock is an hour behind.
        let tokens = TokenCounter::in_directory(directory.path());
        let next = tokens.draw(Token::NONE, at(NOON - 3_600_000)).unwrap();
        assert!(next > drawn, "{next} is not above {drawn}");
        assert!(next.get() > Bounds::decode(&text).unwrap().ceiling);
    }

    #[test]
    fn tokens_grow_though_the_clock_is_set_back_and_the_rate_is_high() {
        let directory = tempfile::tempdir().unwrap();
        let tokens = TokenCounter::in_directory(directory.path());
        let mut last = tokens.draw(Token::NONE, at(NOON)).unwrap();
        for _ in 0..1000 {
            let next = tokens.draw(last, at(NOON - 3_600_000)).unwrap();
            assert!(next > last);
            last = next;
        }
        let ahead = token(last.get() + 2 * HEADROOM);
        assert!(tokens.draw(ahead, at(NOON)).unwrap() > ahead);
    }

    #[test]
    fn a_pending_ceiling_is_not_drawn_from_but_is_below_the_next_boots_tokens() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("tokens");
        let clock = u64::try_from(NOON).unwrap();
        let crashed = Bounds {
            boot_id: clock::boot_id().unwrap().to_owned(),
            floor: 0,
            reach: clock - 1,
            ceiling: clock - 1,
            pending: clock + 5 * HEADROOM,
        };
        fs::write(&path, crashed.encode()).unwrap();
        let tokens = TokenCounter::in_directory(directory.path());
        let drawn = tokens.draw(Token::NONE, at(NOON)).unwrap();
        let raised = Bounds::decode(&fs::read_to_string(&path).unwrap()).unwrap();
        assert!(drawn.get() > crashed.ceiling && raised.ceiling >= drawn.get());
        let crashed = Bounds {
            boot_id: "another-boot".into(),
            ..crashed
        };
        fs::write(&path, crashed.encode()).unwrap();
        let tokens = TokenCounter::in_directory(directory.path());
        let next = tokens.draw(Token::NONE, at(NOON)).unwrap();
        assert!(next.get() > crashed.pending);
    }

    #[test]
    fn a_lock_file_that_knows_nothing_continues_above_all_tokens_of_this_boot() {
        let directory = tempfile::tempdir().unwrap();
        let tokens = TokenCounter::in_directory(directory.path());
        let mut last = tokens.draw(Token::NONE, at(NOON)).unwrap();
        for _ in 0..5000 {
            last = tokens.draw(last, at(NOON)).unwrap();
        }
        // Another process, and a clock that is an hour behind.
        let tokens = TokenCounter::in_directory(directory.path());
        let next = tokens.draw(Token::NONE, at(NOON - 3_600_000)).unwrap();
        assert!(next > last, "{next} is not above {last}");
    }

    #[test]
    fn garbage_is_refused_and_says_what_to_do() {
        let directory = tempfile::tempdir().unwrap();
        for garbage in [
            "",
            "tenure tokens 2\n",
            "tenure tokens 1\nboot x\nfloor 9\nreach 9\nceiling 3\npending 9\n",
        ] {
            fs::write(directory.path().join("tokens"), garbage).unwrap();
            let tokens = TokenCounter::in_directory(directory.path());
            let error = tokens.draw(Token::NONE, at(NOON)).unwrap_err();
            assert!(error.to_string().contains("restore it"), "{error}");
        }
    }
}
