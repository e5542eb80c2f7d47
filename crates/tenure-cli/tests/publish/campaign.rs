//! Random publishes, some killed, some stopped for a while, beside readers and recoveries, and an
//! independent checker.
//!
//! Every version is a directory of files that all name their version. Readers open the directory in
//! place and read it to its end; the inode tells whether it was replaced while they read. The
//! checker knows when each publish began and ended, and whether it was acknowledged:
//!
//! - Every look finds one whole version of this target. Once the target is there it is never
//!   missing.
//! - A look that begins after a publish was acknowledged finds nothing that had ended before that
//!   publish began.
//! - At the end `tenure recover` leaves exactly one version in place, which the last committed
//!   manifest names. No manifest is pending, every acknowledged publish is committed, and the
//!   leftovers in `tmp` belong to publishes that were killed.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{Mode, OFlags, openat};
use tenure_testkit::{campaign_end, tell};

use crate::site::Site;
use crate::world::{code, signal, text};

const TARGETS: usize = 2;
const PUBLISHERS: usize = 3;
const READERS: usize = 2;
/// The files of a version, with their lengths.
const FILES: [(&str, usize); 4] = [
    ("a.txt", 10),
    ("b.txt", 300_000),
    ("in/c.txt", 5_000),
    ("in/deep/d.txt", 100),
];

/// A publish: when it began, when its process was gone, and whether it was acknowledged.
#[derive(Debug, Clone)]
struct Publish {
    target: usize,
    began: Instant,
    ended: Option<Instant>,
    acknowledged: bool,
    killed: bool,
}

/// A look of a reader, with the version that it found.
struct Look {
    target: usize,
    began: Instant,
    version: usize,
}

/// The campaign, shared by all of its threads.
struct Campaign {
    site: Site,
    targets: Vec<String>,
    end: Instant,
    seed: u64,
    publishes: Mutex<Vec<Publish>>,
    looks: Mutex<Vec<Look>>,
    /// The time of a publish in microseconds, roughly.
    takes: AtomicU64,
}

/// Random numbers from a seed.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

impl Campaign {
    fn new() -> Self {
        let site = Site::sqlite();
        let seed = std::env::var("TENURE_PUBLISH_SEED").ok();
        let now = || std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
        let target = |number| site.path(&format!("srv/t{number}")).display().to_string();
        Self {
            targets: (0..TARGETS).map(target).collect(),
            seed: seed.map_or_else(now, |seed| seed.parse().unwrap()),
            end: campaign_end(),
            publishes: Mutex::default(),
            looks: Mutex::default(),
            takes: AtomicU64::new(100_000),
            site,
        }
    }

    fn random(&self, number: usize) -> Random {
        Random(self.seed.wrapping_mul(2 * number as u64 + 1) | 1)
    }

    /// Publishes one version after the other.
    fn publish_at_random(&self, number: usize) {
        let mut random = self.random(number);
        let source = self.site.path(&format!("source-{number}"));
        while Instant::now() < self.end {
            let target = random.below(TARGETS as u64) as usize;
            let version = self.begin(target);
            make_version(&source, version);
            let arguments = ["publish", source.to_str().unwrap(), &self.targets[target]];
            let mut command = self.site.world.tenure();
            command.args(arguments).args(["--wait", "2s", "--op-type"]);
            command
                .arg(format!("v{version}"))
                .stdout(Stdio::null())
                .stderr(Stdio::piped());
            self.publishes.lock().unwrap()[version].began = Instant::now();
            let mut child = command.spawn().unwrap();
            let killed = self.trouble(&mut child, &mut random);
            self.finish(version, killed, &child.wait_with_output().unwrap());
        }
    }

    /// Records a new version, and returns its number.
    fn begin(&self, target: usize) -> usize {
        let mut publishes = self.publishes.lock().unwrap();
        publishes.push(Publish {
            target,
            began: Instant::now(),
            ended: None,
            acknowledged: false,
            killed: false,
        });
        publishes.len() - 1
    }

    /// Kills one in three publishers, and stops one in six for a while; half of the latter die then,
    /// too. Returns true if the publisher was killed.
    fn trouble(&self, child: &mut Child, random: &mut Random) -> bool {
        let takes = self.takes.load(Ordering::Relaxed);
        let some_time = |random: &mut Random| Duration::from_micros(random.below(takes * 3 / 2));
        match random.below(6) {
            0 | 1 => {
                thread::sleep(some_time(random));
                child.kill().unwrap();
                true
            }
            2 => {
                thread::sleep(some_time(random));
                signal(child.id(), libc::SIGSTOP);
                thread::sleep(some_time(random));
                let killed = random.below(2) == 0;
                if killed {
                    child.kill().unwrap();
                }
                signal(child.id(), libc::SIGCONT);
                killed
            }
            _ => false,
        }
    }

    fn finish(&self, version: usize, killed: bool, output: &Output) {
        let mut publishes = self.publishes.lock().unwrap();
        let publish = &mut publishes[version];
        (publish.ended, publish.killed) = (Some(Instant::now()), killed);
        match output.status.code() {
            Some(0) => publish.acknowledged = true,
            // Another publisher was at work, or was taken for dead, so nothing was published.
            Some(75) => {}
            None if killed => {}
            _ => panic!("version {version}: {output:?}"),
        }
        if !killed {
            let took = publish.began.elapsed().as_micros() as u64;
            self.takes
                .store(took.clamp(5_000, 1_000_000), Ordering::Relaxed);
        }
    }

    /// Reads the directory in place, again and again.
    fn read(&self, number: usize) {
        let mut random = self.random(PUBLISHERS + number);
        let mut was_there = [false; TARGETS];
        while Instant::now() < self.end {
            let target = random.below(TARGETS as u64) as usize;
            let began = Instant::now();
            match version_in_place(&self.targets[target]) {
                Seen::Nothing => assert!(!was_there[target], "target {target} is gone"),
                Seen::Replaced => was_there[target] = true,
                Seen::Version(version) => {
                    was_there[target] = true;
                    self.looks.lock().unwrap().push(Look {
                        target,
                        began,
                        version,
                    });
                }
            }
        }
    }

    fn recover(&self) {
        let mut random = self.random(PUBLISHERS + READERS);
        while Instant::now() < self.end {
            let recovered = self.site.world.call(["recover"]);
            assert_eq!(code(&recovered), 0, "{recovered:?}");
            thread::sleep(Duration::from_millis(random.below(400)));
        }
    }

    /// Checks what the readers saw during the campaign.
    fn check_looks(&self) {
        let publishes = self.publishes.lock().unwrap();
        for look in self.looks.lock().unwrap().iter() {
            let seen = publishes.get(look.version);
            let seen = seen.unwrap_or_else(|| panic!("version {} was never made", look.version));
            assert_eq!(seen.target, look.target, "version {}", look.version);
            assert_not_older(&publishes, look.target, look.version, look.began);
        }
    }

    /// Checks what is left at the end.
    fn check_end(&self) {
        let recovered = self.site.world.call(["recover"]);
        assert_eq!(code(&recovered), 0, "{recovered:?}");
        let publishes = self.publishes.lock().unwrap();
        let mut ids_of_killed = Vec::new();
        for (target, path) in self.targets.iter().enumerate() {
            let history = self.site.world.json(["publish", "--history", path]);
            let mut committed = Vec::new();
            for manifest in history["manifests"].as_array().unwrap() {
                let version: usize = manifest["op_type"].as_str().unwrap()[1..].parse().unwrap();
                match manifest["state"].as_str().unwrap() {
                    "committed" => committed.push(version),
                    "aborted" => assert!(!publishes[version].acknowledged, "{manifest}"),
                    _ => panic!("{manifest}"),
                }
                if publishes[version].killed {
                    ids_of_killed.push(manifest["id"].as_str().unwrap().to_owned());
                }
            }
            let acknowledged = publishes.iter().enumerate();
            for (version, _) in
                acknowledged.filter(|(_, one)| one.target == target && one.acknowledged)
            {
                assert!(
                    committed.contains(&version),
                    "version {version} was acknowledged"
                );
            }
            let Seen::Version(version) = version_in_place(path) else {
                panic!("nothing is in place at {path}");
            };
            assert_not_older(&publishes, target, version, Instant::now());
            assert!(
                committed.contains(&version),
                "version {version} is not committed"
            );
            self.site.verified(path);
        }
        for left in self.site.left_in_tmp() {
            assert!(ids_of_killed.contains(&left), "{left} is left in tmp");
        }
    }
}

/// Fails if this version was replaced: it had ended before a publish began that was acknowledged by
/// this time.
#[track_caller]
fn assert_not_older(publishes: &[Publish], target: usize, version: usize, by: Instant) {
    let Some(ended) = publishes[version].ended else {
        return;
    };
    let replaced_by = publishes.iter().position(|other| {
        other.target == target
            && other.acknowledged
            && other.ended.is_some_and(|ended| ended < by)
            && ended < other.began
    });
    assert_eq!(
        replaced_by, None,
        "version {version} is seen again after it was replaced"
    );
}

fn content(version: usize, name: &str, length: usize) -> Vec<u8> {
    let line = format!("{version} {name}\n");
    line.bytes().cycle().take(length.max(line.len())).collect()
}

fn make_version(source: &Path, version: usize) {
    for (name, length) in FILES {
        let path = source.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content(version, name, length)).unwrap();
    }
}

enum Seen {
    /// The directory does not exist.
    Nothing,
    /// The directory that was opened has been replaced, and is being removed.
    Replaced,
    Version(usize),
}

/// Opens the directory in place, reads all of it, and returns its version. Panics if it is torn.
fn version_in_place(target: &str) -> Seen {
    let opened = match File::open(target) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Seen::Nothing,
        opened => opened.unwrap(),
    };
    let found: Vec<_> = FILES
        .iter()
        .map(|(name, _)| bytes_in(&opened, name))
        .collect();
    // A directory that is not in place any more is removed, and readers who opened it before may
    // see that.
    let inode = fs::metadata(target).map(|found| found.ino());
    let is_in_place = inode.is_ok_and(|inode| inode == opened.metadata().unwrap().ino());
    let known = found.iter().flatten().next();
    let version = known.and_then(|bytes| {
        let line = bytes.split(|byte| *byte == b' ').next()?;
        text(line).parse::<usize>().ok()
    });
    let Some(version) = version else {
        assert!(!is_in_place, "nothing of {target} can be read: {found:?}");
        return Seen::Replaced;
    };
    for ((name, length), bytes) in FILES.iter().zip(&found) {
        match bytes {
            Some(bytes) => {
                let expected = content(version, name, *length);
                assert!(
                    *bytes == expected,
                    "{name} of {target} is not of version {version}"
                );
            }
            None => assert!(!is_in_place, "{name} is missing in {target}"),
        }
    }
    match is_in_place {
        true => Seen::Version(version),
        false => Seen::Replaced,
    }
}

fn bytes_in(directory: &File, name: &str) -> Option<Vec<u8>> {
    let opened = openat(directory.as_fd(), name, OFlags::RDONLY, Mode::empty()).ok()?;
    let mut bytes = Vec::new();
    File::from(opened).read_to_end(&mut bytes).unwrap();
    Some(bytes)
}

#[test]
fn publishes_that_are_killed_and_stopped_at_random_leave_one_whole_version_in_place() {
    let campaign = Campaign::new();
    let seed = campaign.seed;
    tell(format!(
        "publish campaign: TENURE_PUBLISH_SEED={seed} draws the same again"
    ));
    thread::scope(|scope| {
        let campaign = &campaign;
        for number in 0..PUBLISHERS {
            scope.spawn(move || campaign.publish_at_random(number));
        }
        for number in 0..READERS {
            scope.spawn(move || campaign.read(number));
        }
        scope.spawn(|| campaign.recover());
    });
    campaign.check_looks();
    campaign.check_end();
    let publishes = campaign.publishes.lock().unwrap();
    let count = |of: fn(&Publish) -> bool| publishes.iter().filter(|one| of(one)).count();
    let (acknowledged, killed) = (count(|one| one.acknowledged), count(|one| one.killed));
    let looks = campaign.looks.lock().unwrap().len();
    tell(format!(
        "publish campaign: {} publishes, {acknowledged} acknowledged, {killed} killed, {looks} looks",
        publishes.len(),
    ));
    assert!(acknowledged > 3 && looks > 10, "hardly anything happened");
}
